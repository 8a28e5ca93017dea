package chaos

import (
	"context"
	"sync"
	"testing"

	"notifier/test/env"
)

// E2, E4, T4 for a fleet: an external NATS server, two replicas, one of them killed again and again. Fails when the work
// of a dead replica is not taken over, or when both replicas send for one Provider.
func TestE2T4NothingIsLostWhenOneOfTwoReplicasIsKilled(t *testing.T) {
	t.Parallel()
	ctx, w := open(t)
	w = shipped(ctx, t, w)
	nats, err := env.StartNATS(ctx, env.NATSOptions{SyncAlways: true})
	must(t, err)
	t.Cleanup(func() { _ = nats.Stop() })
	sink, err := env.NewSink()
	must(t, err)
	t.Cleanup(func() { _ = sink.Down() })
	replica := env.NotifierOptions{Args: []string{
		"--nats-url", nats.URL,
	}}
	fleet := []*env.Notifier{start(ctx, t, w, replica), start(ctx, t, w, replica)}
	l := prepare(ctx, t, w, sink)
	l.fleet = fleet
	served(ctx, t, fleet, l.targets)

	trigger := newMoments(sink)
	l.onAccept = trigger.accepted
	loadCtx, stopLoad := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { l.run(loadCtx) })
	var at []crash
	for i := range kills {
		waitFor(ctx, t, trigger.moment(i))
		victim := fleet[i%2]
		must(t, victim.Kill())
		at = append(at, killed())
		if i == kills/2 { // the bus itself, once
			must(t, nats.Kill9())
			at = append(at, killed())
			must(t, nats.Again(ctx))
		}
		must(t, victim.Restart(ctx))
	}
	stopLoad()
	running.Wait()
	l.balance(ctx, at)
}
