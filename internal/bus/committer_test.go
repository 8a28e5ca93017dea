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

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
)

// fakeStream is a committer whose writes wait to be let through.
type fakeStream struct {
	*committer
	work    sync.WaitGroup
	folds   atomic.Int64
	started chan []*nats.Msg
	finish  chan error
}

func newFakeStream() *fakeStream {
	f := &fakeStream{started: make(chan []*nats.Msg), finish: make(chan error)}
	f.committer = &committer{lines: map[string]*line{}, work: &f.work, folded: func() { f.folds.Add(1) }, write: func(ctx context.Context, msgs []*nats.Msg) []outcome {
		f.started <- msgs
		err := errors.Join(<-f.finish, ctx.Err())
		out := make([]outcome, len(msgs))
		for i := range out {
			out[i].err = err
		}
		return out
	}}
	return f
}

// join commits a foldable message of subject "s" and time at, and reports the answer.
func (f *fakeStream) join(ctx context.Context, subject string, at int64) <-chan error {
	answer := make(chan error, 1)
	go func() {
		m := newMsg(subject, fmt.Append(nil, at))
		_, err := f.commit(ctx, entry{msg: m, fold: true, at: time.Unix(at, 0)})
		answer <- err
	}()
	synctest.Wait()
	return answer
}

func answered(c <-chan error) bool { return len(c) > 0 }

func bodies(msgs []*nats.Msg) (out []string) {
	for _, m := range msgs {
		out = append(out, m.Subject+"="+string(m.Data))
	}
	return out
}

// Invariant T3: nobody is acknowledged by a write that began before they called.
// Fails when commitAll leaves a round open to newcomers while it is written.
func TestALatecomerIsAcknowledgedByTheNextWriteOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream()
		first := f.join(t.Context(), "a", 1)
		if got := bodies(<-f.started); !cmp.Equal(got, []string{"a=1"}) {
			t.Errorf("first write: %v", got)
		}
		late, newest, older, other := f.join(t.Context(), "a", 2), f.join(t.Context(), "a", 9), f.join(t.Context(), "a", 3), f.join(t.Context(), "b", 4)
		if n := f.folds.Load(); n != 2 {
			t.Errorf("%d are counted as folded, want the two that share the place of another", n)
		}
		f.finish <- nil
		synctest.Wait()
		if !answered(first) || answered(late) || answered(newest) || answered(older) || answered(other) {
			t.Error("the first write must answer its own caller and nobody else")
		}
		if got := bodies(<-f.started); !cmp.Equal(got, []string{"a=9", "b=4"}) {
			t.Errorf("second write: %v", got)
		}
		f.finish <- nil
		f.work.Wait()
		for _, c := range []<-chan error{late, newest, older, other} {
			if err := <-c; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestEveryCallerOfAFailedWriteIsToldAndTheNextWriteIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream()
		broken := errors.New("disk")
		a := f.join(t.Context(), "a", 1)
		<-f.started
		b := f.join(t.Context(), "b", 1)
		f.finish <- broken
		<-f.started
		f.finish <- nil
		f.work.Wait()
		if err := <-a; !errors.Is(err, broken) {
			t.Errorf("caller of the failed write: %v", err)
		}
		if err := <-b; err != nil {
			t.Errorf("caller of the good write: %v", err)
		}
	})
}

// Fails when the write runs under the context of the caller that began it.
func TestACallerWhoGivesUpDoesNotEndTheWriteForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream()
		ctx, cancel := context.WithCancel(t.Context())
		a := f.join(ctx, "a", 1)
		<-f.started
		b := f.join(t.Context(), "b", 1)
		same := f.join(t.Context(), "b", 2)
		cancel()
		if err := <-a; !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up: %v", err)
		}
		f.finish <- nil
		<-f.started
		f.finish <- nil
		f.work.Wait()
		for _, c := range []<-chan error{b, same} {
			if err := <-c; err != nil {
				t.Errorf("who waited: %v", err)
			}
		}
	})
}

func TestARoundHasNoMoreEntriesThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream()
		const callers = 2*maxRound + 1
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() { _, _ = f.commit(t.Context(), entry{msg: newMsg(fmt.Sprint(i), nil)}) })
		}
		for total := 0; total < callers; f.finish <- nil {
			n := len(<-f.started)
			if n > maxRound {
				t.Errorf("a write of %d", n)
			}
			total += n
		}
		wg.Wait()
		f.work.Wait()
	})
}

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
func of(namespace string, msgs []*nats.Msg) (n int) {
	for _, m := range msgs {
		if strings.HasPrefix(m.Subject, namespace+".") {
			n++
		}
	}
	return n
}

// Invariant T6. Fails when messages wait in the order of their calls, whoever calls, and when a namespace with many gets more turns.
func TestT6OneNamespacesBacklogIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream()
		f.join(t.Context(), "first", 1)
		<-f.started
		flood := f.backlog(t.Context(), "flood", 20*maxRound, 10)
		few, some := f.backlog(t.Context(), "few", 3, 10), f.backlog(t.Context(), "some", maxRound, 10)
		f.finish <- nil
		next := <-f.started
		if got := of("few", next); got != 3 {
			t.Errorf("%d of 3 messages go with the next write", got)
		}
		if a, b := of("flood", next), of("some", next); max(a, b)-min(a, b) > 1 || a+b != maxRound-3 {
			t.Errorf("of two namespaces with much one got %d places and one %d", a, b)
		}
		f.end(flood, few, some)
	})
}

// end lets the write that was seen and all others through, and waits for their callers.
func (f *fakeStream) end(callers ...func()) {
	go func() {
		for range f.started {
			f.finish <- nil
		}
	}()
	f.finish <- nil
	for _, wait := range callers {
		wait()
	}
	f.work.Wait()
	close(f.started)
}

// Fails when a write may be of any size, and when large messages of one namespace keep small ones of another away.
func TestARoundHasNoMoreBytesThanABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream()
		f.join(t.Context(), "first", 1)
		<-f.started
		large := f.backlog(t.Context(), "large", 10, maxBatchBytes/2+1)
		small := f.backlog(t.Context(), "small", 1, 10)
		f.finish <- nil
		for round, want := range []int{1, 0} {
			next := <-f.started
			if of("large", next) != 1 || of("small", next) != want {
				t.Errorf("round %d has %d large and %d small messages", round, of("large", next), of("small", next))
			}
			if round == 0 {
				f.finish <- nil
			}
		}
		f.end(large, small)
	})
}

// Fails when what nobody waits for any more is written all the same: under load the backlog would grow without end.
func TestWhatAllCallersGaveUpIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream()
		first := f.join(t.Context(), "first", 1)
		<-f.started
		ctx, cancel := context.WithCancel(t.Context())
		gone, halfGone := f.join(ctx, "gone", 1), f.join(ctx, "half", 1)
		stays := f.join(t.Context(), "half", 2)
		cancel()
		<-gone
		<-halfGone
		f.finish <- nil
		if got := bodies(<-f.started); !cmp.Equal(got, []string{"half=2"}) {
			t.Errorf("written: %v", got)
		}
		f.finish <- nil
		f.work.Wait()
		if err := errors.Join(<-first, <-stays); err != nil {
			t.Error(err)
		}
	})
}
