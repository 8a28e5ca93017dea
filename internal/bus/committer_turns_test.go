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

// backlog has a namespace commit so many messages of size bytes, and returns when they wait. The returned function waits for their callers.
func (f *fakeStream) backlog(ctx context.Context, namespace string, count, size int) (ended func()) {
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() {
			m := newMsg(fmt.Sprintf("%s.%d", namespace, i), make([]byte, size))
			_, _ = f.commit(ctx, trigger(entry{msg: m, namespace: namespace}))
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

// busyStream returns a stream with a round that is being written.
func busyStream(t *testing.T) (f *fakeStream, round *write) {
	f = newFakeStream()
	f.join(t.Context(), "round", 1)
	return f, <-f.started
}

// end finishes the writes that were seen and all others, and waits for their callers.
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

// Invariant T6. Fails when messages of all namespaces wait in the order of their calls, and when a namespace with many gets more turns.
func TestT6OneNamespacesBacklogIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, round := busyStream(t)
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
		f.end([]*write{next}, flood, few, some)
	})
}

// Invariant E4. Fails when a namespace's messages take turns in another order than that of their calls.
func TestE4MessagesOfANamespaceAreWrittenInTheOrderOfTheirCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, round := busyStream(t)
		flood := f.backlog(t.Context(), "flood", maxRound, 10)
		var want []string
		for i := range maxRound {
			subject := fmt.Sprint("quiet.", i%3)
			want = append(want, subject+"="+fmt.Sprint(i))
			go func() {
				_, _ = f.commit(t.Context(), entry{msg: newMsg(subject, fmt.Append(nil, i)), namespace: "quiet"})
			}()
			synctest.Wait()
		}
		round.finish(nil)
		var got []string
		for len(got) < len(want) {
			w := <-f.started
			for _, body := range bodies(w.msgs) {
				if strings.HasPrefix(body, "quiet.") {
					got = append(got, body)
				}
			}
			w.finish(nil)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		f.end(nil, flood)
		if n := len(f.latest) + f.waiting.Len(); n > 0 {
			t.Errorf("%d entries are kept that were written", n)
		}
	})
}

// Fails when a write may be of any size, and when large messages of one namespace keep small ones of another away.
func TestARoundHasNoMoreBytesThanABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, round := busyStream(t)
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
		f.end([]*write{next}, large, small)
	})
}
