package alerts

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// slowLetters has ten letters of every Provider, each of which takes ten milliseconds to read.
type slowLetters struct{ Bus }

func (slowLetters) NextDead(ctx context.Context, _, _ string, _ time.Time, from uint64) (*event.Dead, uint64, error) {
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	if from < 10 {
		return &event.Dead{Seq: from}, from + 1, nil
	}
	return &event.Dead{Seq: from}, 0, nil
}

// T6: nothing is sent to a Provider while its dead letters are read after it was mended, and after each start. Fails when those of a
// namespace with very many such Providers are read first, letter by letter.
func TestT6TheDeadLettersOfANamespaceKeepNoOtherProviderWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := newShard(w.deliverer(w.bus.session()), 0)
		d.Bus = slowLetters{}
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 2000 {
			go func() {
				for ctx.Err() == nil {
					_ = d.eachDead(ctx, event.ProviderKey{Namespace: "many", Provider: fmt.Sprint("chat-", i)}, time.Time{}, func(*event.Dead) {})
				}
			}()
		}
		wait(time.Second)
		began, letters := time.Now(), 0
		if err := d.eachDead(ctx, event.ProviderKey{Namespace: "team-a", Provider: "chat"}, time.Time{}, func(*event.Dead) { letters++ }); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); letters != 10 || took > 200*time.Millisecond {
			t.Errorf("another namespace's %d letters are read in %s", letters, took)
		}
		cancel()
	})
}

// Nothing is sent to a Provider that was mended until its dead letters are listed. Fails when a listing that takes long begins anew: with so
// many letters that each takes too long, it never ends.
func TestADestinationWithDeadLettersThatAreListedForLongIsSentTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &refusing{}
		w.version("chat", "1", dest)
		_, stop := w.run()
		ids := w.die("chat")
		w.bus.slow(time.Second, "deadletters")
		dest.mended.Store(true)
		w.version("chat", "2", dest)
		next := w.routed("chat", "app0")
		w.bus.publish(next)
		wait(3 * time.Minute)
		inOrder(t, dest.ids(), append(ids, next.ID))
		stop()
	})
}

// Fails when a drain waits until the dead letters of a Provider are listed or counted, or until those that were listed are published: the next
// worker could not begin. It does the rest.
func TestADrainReadsAndReplaysNoMoreDeadLetters(t *testing.T) {
	for name, tc := range map[string]struct{ slow, version string }{
		"that are listed": {"deadletters", "2"}, "that are counted": {"deadletters", "1"}, "that are published": {"replay", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dest := newWorld(t), &refusing{}
				w.version("chat", "1", dest)
				_, stop := w.run()
				ids := w.die("chat")
				stop()
				w.bus.slow(time.Second, tc.slow)
				dest.mended.Store(true)
				w.version("chat", tc.version, dest)
				_, stop = w.run()
				wait(15 * time.Second)
				began := time.Now()
				stop()
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("the drain took %s", took)
				}
				w.version("chat", "3", dest)
				_, stop = w.run()
				wait(5 * time.Minute)
				stop()
				inOrder(t, dest.ids(), ids)
			})
		})
	}
}

// A destination refuses every second message for good. Fails when its dead letters are listed anew after each refusal that a success follows:
// nothing is sent meanwhile, and what comes waits ever longer.
func TestE5ADestinationThatRefusesSomeIsSentTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, good := newWorld(t), &sink{}
		w.version("chat", "1", sendFunc(func(ctx context.Context, n provider.Notification) error {
			<-time.After(200 * time.Millisecond)
			if strings.HasPrefix(n.Event.InvolvedObject.Name, "never") {
				return failure(event.Permanent, provider.LabelClient)
			}
			return good.Send(ctx, n)
		}))
		w.bus.slow(5*time.Millisecond, "deadletters")
		_, stop := w.run()
		const half = 1500
		for i := range half {
			w.bus.publish(w.delivery("chat", fmt.Sprint("app", i%20)), w.delivery("chat", fmt.Sprint("never", i%20)))
			pass(200 * time.Millisecond)
		}
		wait(time.Minute)
		if n := good.count(); n != half {
			t.Errorf("%d of %d are sent", n, half)
		}
		stop()
	})
}
