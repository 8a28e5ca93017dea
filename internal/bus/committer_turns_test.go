package bus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// backlog has a namespace commit so many messages of size bytes, and returns when they wait. The returned function waits for their
// callers.
func (f *fakeStream) backlog(ctx context.Context, namespace string, count, size int) (ended func()) {
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() {
			m := newMsg(fmt.Sprintf("%s.%d", namespace, i), make([]byte, size))
			_, _ = f.commit(ctx, entry{msg: m, namespace: namespace, fold: true})
		})
	}
	synctest.Wait()
	return wg.Wait
}

// of counts the messages of a namespace's backlog.
func (w *write) of(namespace string) (n int) {
	for _, m := range w.msgs {
		if strings.HasPrefix(m.Subject, namespace+".") {
			n++
		}
	}
	return n
}

// crowded is a stream with a round on its way, and as many messages beside it as may be.
func crowded(t *testing.T) (f *fakeStream, round *write, aside []*write) {
	f = newFakeStream()
	f.join(t.Context(), "round", 1)
	round = <-f.started
	for i := range maxAside {
		f.backlog(t.Context(), fmt.Sprint("aside-", i), 1, 10)
		aside = append(aside, <-f.started)
	}
	return f, round, aside
}

// end lets the writes that were seen and all others through, and waits for their callers.
func (f *fakeStream) end(seen []*write, callers ...func()) {
	go func() {
		for w := range f.started {
			w.finish(nil)
		}
	}()
	for _, w := range seen {
		w.finish(nil)
	}
	for _, wait := range callers {
		wait()
	}
	f.work.Wait()
	close(f.started)
}

// Invariant T6. Fails when messages wait in the order of their calls, whoever calls, and when a namespace with many gets more turns.
func TestT6OneNamespacesBacklogIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, round, seen := crowded(t)
		flood := f.backlog(t.Context(), "flood", 20*maxRound, 10)
		few, some := f.backlog(t.Context(), "few", 3, 10), f.backlog(t.Context(), "some", maxRound, 10)
		round.finish(nil)
		next := <-f.started
		if got := next.of("few"); got != 3 {
			t.Errorf("%d of 3 messages go with the next write", got)
		}
		if a, b := next.of("flood"), next.of("some"); max(a, b)-min(a, b) > 1 || a+b != maxRound-3 {
			t.Errorf("of two namespaces with much one got %d places and one %d", a, b)
		}
		f.end(append(seen, next), flood, few, some)
	})
}

// Invariant T6. Fails when a namespace that has nothing else to commit waits for another's round, and when any number of messages go
// beside it, each with a sync of its own.
func TestT6OneMessageGoesBesideARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream()
		f.join(t.Context(), "round", 1)
		round := <-f.started
		quiet := f.backlog(t.Context(), "quiet", 1, 10)
		aside := <-f.started
		if aside.of("quiet") != 1 || len(aside.msgs) != 1 {
			t.Errorf("beside the round go %v", bodies(aside.msgs))
		}
		aside.finish(nil)
		quiet()
		var callers []func()
		for i := range maxAside + 3 {
			callers = append(callers, f.backlog(t.Context(), fmt.Sprint("n", i), 1, 10))
		}
		seen := []*write{round}
		for range maxAside {
			seen = append(seen, <-f.started)
		}
		synctest.Wait()
		select {
		case w := <-f.started:
			t.Errorf("one more goes beside the round: %v", bodies(w.msgs))
			seen = append(seen, w)
		default:
		}
		f.end(seen, callers...)
	})
}

// Invariant E4. Fails when a namespace's next message goes with a round while the one before it is still on its way beside another, and
// when it is forgotten then.
func TestE4AMessageDoesNotOvertakeTheOneBesideTheRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream()
		f.join(t.Context(), "round", 1)
		round := <-f.started
		f.backlog(t.Context(), "a", 1, 10)
		first := <-f.started
		second := make(chan error, 1)
		go func() {
			_, err := f.commit(t.Context(), entry{msg: newMsg("a.second", nil), namespace: "a", fold: true})
			second <- err
		}()
		synctest.Wait()
		round.finish(nil)
		f.join(t.Context(), "round", 2)
		next := <-f.started
		if got := bodies(next.msgs); !cmp.Equal(got, []string{"round=2"}) {
			t.Errorf("beside the first message goes %v", got)
		}
		first.finish(nil)
		synctest.Wait()
		next.finish(nil)
		last := <-f.started
		if got := bodies(last.msgs); !cmp.Equal(got, []string{"a.second="}) {
			t.Errorf("after the first message goes %v", got)
		}
		last.finish(nil)
		f.work.Wait()
		if err := <-second; err != nil {
			t.Error(err)
		}
		if len(f.lines) > 0 {
			t.Errorf("%d lines are kept of nothing", len(f.lines))
		}
	})
}

// Fails when a write may be of any size, and when large messages of one namespace keep small ones of another away.
func TestARoundHasNoMoreBytesThanABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, round, seen := crowded(t)
		large := f.backlog(t.Context(), "large", 10, maxBatchBytes/2+1)
		small := f.backlog(t.Context(), "small", 1, 10)
		round.finish(nil)
		next := <-f.started
		if next.of("large") != 1 || next.of("small") != 1 {
			t.Errorf("the next round has %d large and %d small messages", next.of("large"), next.of("small"))
		}
		next.finish(nil)
		next = <-f.started
		if next.of("large") != 1 {
			t.Errorf("the round after it has %d large messages", next.of("large"))
		}
		f.end(append(seen, next), large, small)
	})
}
