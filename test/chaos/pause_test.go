package chaos

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"notifier/test/env"
)

const (
	// paused is longer than the lease of the stopped replica.
	paused = 8 * time.Second
	// afterwards is how long both are watched when it continues.
	afterwards = 4 * time.Second
	// leastGap between two requests for an object: the stamp is taken when the slot opens, the request itself takes a
	// little.
	leastGap = 900 * time.Millisecond
)

// T4, E3 for a replica that hangs, as on a machine short of memory, until another has taken over its work. Fails when it
// continues with its old work: an object then gets two requests within an interval, and deliveries are repeated that the
// other has sent.
func TestT4E3AReplicaThatWasStoppedDoesNotGoOnWithItsWork(t *testing.T) {
	t.Parallel()
	ctx, w := open(t)
	w = shipped(ctx, t, w)
	nats, err := env.StartNATS(ctx, env.NATSOptions{})
	must(t, err)
	t.Cleanup(func() { _ = nats.Stop() })
	sink, err := env.NewSink()
	must(t, err)
	t.Cleanup(func() { _ = sink.Down() })
	replica := env.NotifierOptions{Args: []string{
		"--nats-url", nats.URL,
	}}
	victim := start(ctx, t, w, replica)
	other := start(ctx, t, w, replica)
	l := prepare(ctx, t, w, sink)
	l.fleet = []*env.Notifier{other}
	served(ctx, t, l.fleet, l.targets)
	must(t, env.Eventually(ctx, func(ctx context.Context) error { return isWorker(ctx, victim) }))
	audit, err := w.Audit()
	must(t, err)
	loadCtx, stopLoad := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { l.run(loadCtx) })
	must(t, pause(ctx, 2*time.Second))
	stopped := killed()
	must(t, victim.Process().Pause())
	must(t, pause(ctx, paused))
	must(t, isWorker(ctx, other))
	resumed := time.Now()
	must(t, victim.Process().Resume())
	for time.Since(resumed) < afterwards {
		if isWorker(ctx, victim) == nil && isWorker(ctx, other) == nil {
			t.Errorf("both say that they are the worker, %s after the one went on", time.Since(resumed))
			break
		}
	}
	stopLoad()
	running.Wait()
	l.balance(ctx, []crash{stopped})
	l.spaced(audit)
}

func isWorker(ctx context.Context, n *env.Notifier) error {
	leading, err := n.Metric(ctx, "notifier_worker")
	if err == nil && leading != 1 {
		err = fmt.Errorf("%s is not the worker", n.HealthURL)
	}
	return err
}

// spaced fails the test for each target that got two reconcile requests within one interval.
func (l *load) spaced(audit *env.Audit) {
	l.t.Helper()
	entries, err := audit.Find(func(e env.AuditEntry) bool {
		return e.Verb == "patch" && e.ObjectRef.Resource == "gitrepositories" && e.Impersonated() != "" && e.ResponseStatus.Code == 200
	})
	must(l.t, err)
	last := map[string]time.Time{}
	for _, target := range l.targets {
		last[target.tenant.Namespace+"/"+target.name] = time.Time{}
	}
	requests, early := 0, 0
	for _, e := range entries {
		object := e.ObjectRef.Namespace + "/" + e.ObjectRef.Name
		before, ours := last[object]
		if !ours {
			continue
		}
		requests++
		if gap := e.Received.Sub(before).Abs(); gap < leastGap {
			early++
			l.t.Errorf("T4: %s got two requests %s apart", object, gap)
		}
		last[object] = e.Received
	}
	l.t.Logf("requests stamped: %d; within one interval of the one before: %d", requests, early)
}
