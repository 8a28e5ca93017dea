package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// T6: the events of one namespace come faster than they are handled. Fails when they take all places for open events, or all of the memory,
// so that another namespace's events wait for them, whichever replica accepts them.
func TestT6EventsThatComeFasterThanTheyAreHandledDelayOnlyTheirNamespace(t *testing.T) {
	t.Parallel()
	t.Run("accepted by the worker", func(t *testing.T) {
		t.Parallel()
		b := open(t, t.TempDir(), nil)
		backlog(t, b, b)
	})
	t.Run("accepted by another replica", func(t *testing.T) {
		t.Parallel()
		url := remote(t)
		worker := open(t, "", func(o *Options) { o.URL, o.ReplicaID = url, "worker" })
		backlog(t, worker, open(t, "", func(o *Options) { o.URL, o.ReplicaID = url, "other" }))
	})
}

// backlog publishes at one replica the events of a namespace that another, the worker, does not handle.
func backlog(t *testing.T, worker, b *Bus) {
	ctx := testContext(t)
	heavy := func(r *event.Record) bool { return strings.HasPrefix(r.ID, "heavy") }
	held, quick := make(chan struct{}), make(chan string, 2*maxOpen)
	start(t, func(ctx context.Context) error {
		return worker.Events(ctx, handlerOf(heavy, func(ctx context.Context, batch []*event.Record) error {
			if heavy(batch[0]) {
				select {
				case <-held:
				case <-ctx.Done():
				}
				return ctx.Err()
			}
			for _, r := range batch {
				quick <- r.ID
			}
			return ctx.Err()
		}))
	})
	publish := func(id, namespace string) error {
		_, err := b.PublishEvent(ctx, testRecord(id, namespace, "app"))
		return err
	}
	must(t, publish("first", "other"))
	receive(t, quick)
	accepted, refused := 0, error(nil)
	for refused == nil && accepted < maxOpen/4 {
		batch := make([]*event.Record, 64)
		for i := range batch {
			batch[i] = testRecord(fmt.Sprint("heavy-", accepted+i), "many", fmt.Sprint("app-", i)) // those of one object wait for each other
		}
		publishRecords(t, b, batch...)
		accepted += len(batch)
		refused = publish(fmt.Sprint("heavy-last-", accepted), "many")
		if errors.Is(refused, context.DeadlineExceeded) && ctx.Err() == nil {
			refused = nil // the server of a busy machine was late
		}
	}
	if !errors.Is(refused, ErrFull) {
		t.Fatalf("after %d events that nothing handles: got %v, want %v", accepted, refused, ErrFull)
	}
	least := time.Hour // of several: a busy machine delays some of them
	for i := 0; least > backlogWait && i < 5; i++ {
		began := time.Now()
		must(t, publish(fmt.Sprint("quick-", i), "other"))
		receive(t, quick)
		least = min(least, time.Since(began))
	}
	if least > backlogWait {
		t.Errorf("another namespace's event took %s", least)
	}
	close(held)
	for refused != nil && ctx.Err() == nil {
		refused = publish("heavy-again", "many") // waits for backlogWait
	}
	must(t, refused)
}

// T6: a hundred namespaces have as many events waiting as they may have. Fails when a namespace's share does not shrink with what the others
// leave, so that all of them fill the places for open events and another namespace's events wait.
func TestT6BacklogsOfManyNamespacesLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	heavy := func(r *event.Record) bool { return strings.HasPrefix(r.ID, "heavy") }
	quick := make(chan string, 100)
	start(t, func(ctx context.Context) error {
		return b.Events(ctx, handlerOf(heavy, func(ctx context.Context, batch []*event.Record) error {
			if heavy(batch[0]) {
				<-ctx.Done()
				return ctx.Err()
			}
			for _, r := range batch {
				quick <- r.ID
			}
			return nil
		}))
	})
	var floods sync.WaitGroup
	for n := range 100 {
		floods.Go(func() {
			for i := range maxOpen / 64 {
				_, err := b.PublishEvent(ctx, testRecord(fmt.Sprint("heavy-", n, "-", i), fmt.Sprint("many-", n), "app"))
				if errors.Is(err, ErrFull) {
					return
				}
				must(t, err)
			}
		})
	}
	floods.Wait()
	for i := range 20 {
		began := time.Now()
		_, err := b.PublishEvent(ctx, testRecord(fmt.Sprint("light-", i), "other", "app"))
		must(t, err)
		receive(t, quick)
		if took := time.Since(began); took > backlogWait {
			t.Errorf("another namespace's event took %s", took)
		}
	}
}

// T6: a namespace's event is not handled for minutes, and others have more events meanwhile than may be open. Fails when the events from the
// oldest open one on are bounded by maxOpen, though all but one are done.
func TestT6AnEventThatIsHandledForLongHoldsUpNoOtherNamespace(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	const others = maxOpen + maxOpen/8
	heavy := func(r *event.Record) bool { return r.ID == "heavy" }
	var done atomic.Int64
	all := make(chan struct{})
	start(t, func(ctx context.Context) error {
		return b.Events(ctx, handlerOf(heavy, func(ctx context.Context, batch []*event.Record) error {
			if heavy(batch[0]) {
				<-ctx.Done()
				return ctx.Err()
			}
			if done.Add(int64(len(batch))) == others {
				close(all)
			}
			return nil
		}))
	})
	publishRecords(t, b, testRecord("heavy", "many", "app"))
	records := make([]*event.Record, others)
	for i := range records {
		records[i] = testRecord(fmt.Sprint("light-", i), fmt.Sprint("other-", i%100), "app")
	}
	publishRecords(t, b, records...)
	select {
	case <-all:
	case <-testContext(t).Done():
		t.Errorf("of %d events of other namespaces %d are handled", others, done.Load())
	}
}

// T6: fails when the events of a namespace that the handler is full of are handled, or are not handled once it is not full, or when another
// namespace's events wait for them.
func TestT6EventsWaitWhileTheHandlerIsFullOfTheirNamespace(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	var full atomic.Bool
	full.Store(true)
	handled := make(chan string, 10)
	h := handlerOf(light, func(_ context.Context, batch []*event.Record) error {
		for _, r := range batch {
			handled <- r.ID
		}
		return nil
	})
	h.Full = func(namespace string) bool { return namespace == "many" && full.Load() }
	start(t, func(ctx context.Context) error { return b.Events(ctx, h) })
	for _, r := range []*event.Record{testRecord("one", "many", "app"), testRecord("two", "many", "app"), testRecord("other", "other", "app")} {
		_, err := b.PublishEvent(ctx, r)
		must(t, err)
	}
	if id := receive(t, handled); id != "other" {
		t.Errorf("%s is handled first", id)
	}
	full.Store(false)
	for _, want := range []string{"one", "two"} {
		if id := receive(t, handled); id != want {
			t.Errorf("%s is handled, want %s", id, want)
		}
	}
}

// Fails when the other replicas refuse events of the namespaces that a worker told them of until backloggedLife after its term.
func TestTheEndOfATermEndsWhatItsWorkerRefused(t *testing.T) {
	t.Parallel()
	url := remote(t)
	worker := open(t, "", func(o *Options) { o.URL, o.ReplicaID = url, "worker" })
	other := open(t, "", func(o *Options) { o.URL, o.ReplicaID = url, "other" })
	ctx := testContext(t)
	worker.backlogged.set("many", true)
	stop := start(t, func(ctx context.Context) error {
		worker.publishBacklogged(ctx)
		return nil
	})
	for other.backlogged.await(ctx, "many") == nil {
		must(t, ctx.Err())
	}
	stop()
	ended := time.Now()
	for other.backlogged.await(ctx, "many") != nil {
		must(t, ctx.Err())
	}
	if took := time.Since(ended); took > backloggedInterval {
		t.Errorf("refused for %s after the term", took)
	}
}

// Fails when a namespace is refused once its backlog has ended, or for longer than backloggedLife after the last message of a worker that
// was killed; or when it is served before.
func TestANamespaceIsRefusedUntilItsBacklogEnds(t *testing.T) {
	served := func(t *testing.T, s *backlogged, after time.Duration) {
		t.Helper()
		began := time.Now()
		for errors.Is(s.await(t.Context(), "many"), ErrFull) {
		}
		if took := time.Since(began); took != after {
			t.Errorf("refused for %s, want %s", took, after)
		}
	}
	for name, test := range map[string]func(t *testing.T, s *backlogged){
		"as the worker finds": func(t *testing.T, s *backlogged) {
			s.set("many", true)
			s.set("other", true)
			time.AfterFunc(time.Second/10, func() { s.set("many", false) })
			served(t, s, time.Second/10)
		},
		"as another worker publishes": func(t *testing.T, s *backlogged) {
			s.follow([]string{"many", "other"})
			time.AfterFunc(time.Second/10, func() { s.follow([]string{"other"}) })
			served(t, s, time.Second/10)
		},
		"until the worker has been silent": func(t *testing.T, s *backlogged) {
			s.follow([]string{"many"})
			time.AfterFunc(backloggedInterval, func() { s.follow([]string{"many"}) })
			served(t, s, backloggedInterval+backloggedLife)
		},
		"as long as either says so": func(t *testing.T, s *backlogged) {
			s.follow([]string{"many"})
			s.set("many", true)
			time.AfterFunc(time.Second/10, func() { s.set("many", false) })
			served(t, s, backloggedLife)
			s.follow([]string{"many"})
			s.set("many", true)
			time.AfterFunc(2*backloggedLife, func() { s.set("many", false) })
			served(t, s, 2*backloggedLife)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newBacklogged()) })
		})
	}
}
