package reconcile

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "notifier/api/v1"
	"notifier/internal/event/view"
)

// refusing is a feed that refuses the first notes of handled requests.
type refusing struct {
	HealthFeed
	left atomic.Int64
}

func (r *refusing) Put(ctx context.Context, key string, value []byte) error {
	if strings.HasPrefix(key, providerAsked) && r.left.Add(-1) >= 0 {
		return errors.New("bus away")
	}
	return r.HealthFeed.Put(ctx, key, value)
}

// Fails when a request that was served is served again since it could not be noted: each time all selected deliveries would be sent once
// more.
func TestARequestThatIsNotNotedIsServedOnce(t *testing.T) {
	asks, feed := &askedFor{result: view.ReplayResult{Replayed: 1}}, &refusing{}
	feed.left.Store(3)
	play(t, settings{change: func(o *Options) {
		feed.HealthFeed = o.Health
		o.Requests, o.Health = by(asks), feed
	}}, func(w *world) {
		w.apply(v1.ProviderKind, newProvider("chat", asking(map[string]string{v1.ReplayAnnotation: "dead"})))
		w.settle()
		w.settle()
		if got := asks.take(); len(got) != 1 {
			t.Errorf("asked %q", got)
		}
		if n := len(w.feed.values); n != 1 {
			t.Errorf("%d are noted", n)
		}
	})
}

// Fails when a test message waits for a replay that fails.
func TestATestDoesNotWaitForAReplay(t *testing.T) {
	asks := &failing{}
	play(t, settings{change: func(o *Options) { o.Requests = by(asks) }}, func(w *world) {
		w.apply(v1.ProviderKind, newProvider("chat", asking(map[string]string{v1.ReplayAnnotation: "dead", v1.TestAnnotation: "1"})))
		w.settle()
		if got := asks.take(); !slices.Contains(got, "test team-a chat 1") || len(got) > 1 {
			t.Errorf("done: %q", got)
		}
	})
}

// failing fails all replays.
type failing struct{ askedFor }

func (*failing) Replay(context.Context, string, view.ReplayRequest) (view.ReplayResult, error) {
	return view.ReplayResult{}, errors.New("the history cannot be read")
}

// slowRemovals is a feed whose removals each wait until they may proceed.
type slowRemovals struct {
	HealthFeed
	begun   chan string // the keys
	proceed chan struct{}
}

func (s *slowRemovals) Put(ctx context.Context, key string, value []byte) error {
	if value == nil {
		for _, wait := range []func() bool{
			func() bool { return send(ctx, s.begun, key) }, func() bool { return send(ctx, s.proceed, struct{}{}) },
		} {
			if !wait() {
				return ctx.Err()
			}
		}
	}
	return s.HealthFeed.Put(ctx, key, value)
}

func send[T any](ctx context.Context, to chan<- T, value T) bool {
	select {
	case to <- value:
		return true
	case <-ctx.Done():
		return false
	}
}

// E3: fails when a note about an object that was made anew, while others are removed, is removed as one about the deleted object: the next
// worker would serve its request again.
func TestE3ASweepLeavesANoteThatIsWrittenMeanwhile(t *testing.T) {
	slow := &slowRemovals{}
	names := []string{"a", "b"}
	play(t, settings{change: func(o *Options) {
		slow.HealthFeed, slow.begun, slow.proceed = o.Health, make(chan string), make(chan struct{})
		o.Requests, o.Health = by(&askedFor{result: view.ReplayResult{Replayed: 1}}), slow
	}}, func(w *world) {
		ask := asking(map[string]string{v1.ReplayAnnotation: "dead"})
		for _, name := range names {
			w.apply(v1.ProviderKind, newProvider(name, ask))
		}
		w.settle()
		for _, name := range names {
			w.remove(v1.ProviderKind, name)
		}
		again, key := "a", providerAsked+"/team-a/a"
		if <-slow.begun == key {
			again, key = "b", providerAsked+"/team-a/b"
		}
		w.apply(v1.ProviderKind, newProvider(again, ask, func(p *v1.Provider) { p.UID = "uid-other" }))
		w.settle()
		<-slow.proceed
		select {
		case removed := <-slow.begun:
			t.Errorf("%s is removed", removed)
		case <-time.After(2 * sweepEvery):
		}
		if note, _ := w.feed.Get(t.Context(), key); !strings.Contains(string(note), "uid-other") {
			t.Errorf("noted %q", note)
		}
	})
}
