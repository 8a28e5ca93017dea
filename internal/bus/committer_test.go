package bus

import (
	"context"
	"errors"
	"fmt"
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
	f.committer = &committer{work: &f.work, folded: func() { f.folds.Add(1) }, write: func(ctx context.Context, msgs []*nats.Msg) []outcome {
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

func TestARoundHasNoMoreEntriesThanABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream()
		const callers = 2*maxBatch + 1
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() { _, _ = f.commit(t.Context(), entry{msg: newMsg(fmt.Sprint(i), nil)}) })
		}
		for total := 0; total < callers; f.finish <- nil {
			n := len(<-f.started)
			if n > maxBatch {
				t.Errorf("a write of %d", n)
			}
			total += n
		}
		wg.Wait()
		f.work.Wait()
	})
}
