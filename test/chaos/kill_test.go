package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/test/env"
)

const (
	kills = 21
	// near bounds the time between a send or an acceptance and the kill.
	near = 50 * time.Millisecond
)

// E2, E3, E4, T3, T4. Fails, for instance, when an event is answered before its PubAck, or when a delivery is
// acknowledged before it is sent. Fails also when the history is not read after a restart, or when an applier
// acknowledges a trigger before its patch.
func TestE2T4NothingIsLostOverKillsUnderLoad(t *testing.T) {
	ctx, w := open(t)
	sink, err := env.NewSink()
	must(t, err)
	t.Cleanup(func() { _ = sink.Down() })
	w = shipped(ctx, t, w)
	n := start(ctx, t, w, env.NotifierOptions{})
	l := prepare(ctx, t, w, sink)
	l.fleet = []*env.Notifier{n}
	victim := victims(ctx, t, w, l.fleet, kills)

	trigger := newMoments(sink)
	l.onAccept = trigger.accepted
	loadCtx, stopLoad := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { l.run(loadCtx) })

	var at []crash
	for i := range kills {
		l.isUp()
		lastWebhook := func() { l.webhook(ctx, victim[i], i) } // its only one
		if i%2 == 0 {
			stop := l.busy(ctx, victim[i])
			lastWebhook = func() { stop(); l.webhook(ctx, victim[i], 0) }
		}
		waitFor(ctx, t, trigger.moment(i))
		l.isDown()
		lastWebhook()
		must(t, n.Kill())
		at = append(at, killed())
		must(t, n.Restart(ctx))
	}
	stopLoad()
	running.Wait()
	l.enough()
	l.targets = append(l.targets, victim...)
	l.balance(ctx, at)
}

// victims makes one target for each kill: its last webhook is answered just before the kill. All other targets get more
// after every kill, which would make up for a lost one.
func victims(ctx context.Context, t *testing.T, w *env.System, fleet []*env.Notifier, count int) []*target {
	t.Helper()
	tenant, err := w.Tenant(ctx, "victim-")
	must(t, err)
	all := make([]*target, count)
	var g errgroup.Group
	g.SetLimit(2 * kills)
	for i := range all {
		g.Go(func() (err error) {
			all[i], err = newTarget(ctx, tenant, fmt.Sprintf("app-%d", i))
			return err
		})
	}
	must(t, g.Wait())
	served(ctx, t, fleet, all)
	return all
}

// served waits until every replica serves every target.
func served(ctx context.Context, t *testing.T, fleet []*env.Notifier, targets []*target) {
	t.Helper()
	for _, target := range targets {
		for _, n := range fleet {
			must(t, env.Eventually(ctx, func(ctx context.Context) error { return serves(ctx, n, target.path) }))
		}
	}
}

// busy sends webhooks to a target at such a rate that one of them waits for its turn at any time. The returned function
// ends that.
func (l *load) busy(ctx context.Context, t *target) (end func()) {
	const perSecond = 20
	busy, stop := context.WithCancel(ctx)
	var sender sync.WaitGroup
	sender.Go(func() { pace(busy, perSecond, 1, 0, func(k int) { l.webhook(ctx, t, k) }) })
	return func() {
		stop()
		sender.Wait()
	}
}

// moments chooses the times of kills: at random, shortly after a send, shortly after an acceptance.
type moments struct {
	sink *env.Sink
	acks chan struct{}
}

func newMoments(sink *env.Sink) *moments {
	return &moments{sink: sink, acks: make(chan struct{}, 1)}
}

func (m *moments) accepted() {
	select {
	case m.acks <- struct{}{}:
	default:
	}
}

// moment returns a function that waits for the i-th kill's moment.
func (m *moments) moment(i int) func(context.Context) error {
	settle := 100*time.Millisecond + time.Duration(rand.Int64N(int64(200*time.Millisecond)))
	return func(ctx context.Context) error {
		if err := pause(ctx, settle); err != nil {
			return err
		}
		switch i % 3 {
		case 1: // after a send
			have := m.sink.Count()
			if _, err := m.sink.Wait(ctx, func(all []env.Received) bool { return len(all) > have }); err != nil {
				return err
			}
		case 2: // after an acceptance
			select { // earlier acceptances do not count
			case <-m.acks:
			default:
			}
			select {
			case <-m.acks:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return pause(ctx, time.Duration(rand.Int64N(int64(near))))
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func waitFor(ctx context.Context, t *testing.T, moment func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second) // for a test that hangs: failover_test.go has the bound on a takeover
	defer cancel()
	must(t, moment(ctx))
}
