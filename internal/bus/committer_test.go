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
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"notifier/internal/fair"
)

// fakeStream is a committer whose writes wait until the test finishes them.
type fakeStream struct {
	*committer
	work    sync.WaitGroup
	folds   atomic.Int64
	started chan *write
}

// write is a waiting write.
type write struct {
	msgs []*nats.Msg
	end  chan error
}

func (w *write) finish(err error) { w.end <- err }

func newFakeStream() *fakeStream {
	f := &fakeStream{started: make(chan *write)}
	f.committer = &committer{waiting: fair.NewQueue(pendingNamespace), latest: map[string]*pending{}, work: &f.work, most: maxRound, least: maxRound}
	f.coalesced = func() { f.folds.Add(1) }
	f.write = func(ctx context.Context, msgs []*nats.Msg) []outcome {
		w := &write{msgs, make(chan error)}
		f.started <- w
		err := errors.Join(<-w.end, ctx.Err())
		out := make([]outcome, len(msgs))
		for i := range out {
			out[i].err = err
		}
		return out
	}
	return f
}

// trigger makes the newest of the waiting entries of a subject replace the others, as triggers do.
func trigger(e entry) entry {
	e.coalesce = func(waiting *entry) bool { return newest(waiting, e) }
	return e
}

// join commits a message of a subject and time at that may be coalesced, and returns a channel with the answer.
func (f *fakeStream) join(ctx context.Context, subject string, at int64) <-chan error {
	answer := make(chan error, 1)
	go func() {
		m := newMsg(subject, fmt.Append(nil, at))
		_, err := f.commit(ctx, trigger(entry{msg: m, at: time.Unix(at, 0)}))
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

// Invariant T3: no caller is acknowledged by a write that began before its call. Fails when commitAll leaves a round open to newcomers
// while it is written.
func TestALatecomerIsAcknowledgedByTheNextWriteOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream()
		first := f.join(t.Context(), "a", 1)
		write := <-f.started
		if got := bodies(write.msgs); !cmp.Equal(got, []string{"a=1"}) {
			t.Errorf("first write: %v", got)
		}
		late, newest, older, other := f.join(t.Context(), "a", 2), f.join(t.Context(), "a", 9), f.join(t.Context(), "a", 3), f.join(t.Context(), "b", 4)
		if n := f.folds.Load(); n != 2 {
			t.Errorf("%d are counted as coalesced, want the two that another stands for", n)
		}
		write.finish(nil)
		synctest.Wait()
		if !answered(first) || answered(late) || answered(newest) || answered(older) || answered(other) {
			t.Error("the first write must answer its own caller and nobody else")
		}
		write = <-f.started
		if got := bodies(write.msgs); !cmp.Equal(got, []string{"a=9", "b=4"}) {
			t.Errorf("second write: %v", got)
		}
		write.finish(nil)
		f.work.Wait()
		for _, c := range []<-chan error{late, newest, older, other} {
			if err := <-c; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAFailedWriteFailsItsCallersAndNotTheNextWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream()
		broken := errors.New("disk")
		a := f.join(t.Context(), "a", 1)
		write := <-f.started
		b := f.join(t.Context(), "b", 1)
		write.finish(broken)
		(<-f.started).finish(nil)
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
		write := <-f.started
		b := f.join(t.Context(), "b", 1)
		same := f.join(t.Context(), "b", 2)
		cancel()
		if err := <-a; !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up: %v", err)
		}
		write.finish(nil)
		(<-f.started).finish(nil)
		f.work.Wait()
		for _, c := range []<-chan error{b, same} {
			if err := <-c; err != nil {
				t.Errorf("who waited: %v", err)
			}
		}
	})
}

// Fails when the first round waits as well, or when no round waits for messages that arrive after the one before it.
func TestMessagesThatCanWaitAreWrittenTogetherAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream()
		f.pause = time.Second
		began := time.Now()
		first := f.join(t.Context(), "a", 1)
		(<-f.started).finish(nil)
		if err := <-first; err != nil || time.Since(began) > 0 {
			t.Errorf("the first was answered after %s: %v", time.Since(began), err)
		}
		<-time.After(f.pause / 4)
		b := f.join(t.Context(), "b", 1)
		<-time.After(f.pause / 4)
		c := f.join(t.Context(), "c", 1)
		write := <-f.started
		if got := bodies(write.msgs); !cmp.Equal(got, []string{"b=1", "c=1"}) || time.Since(began) != f.pause {
			t.Errorf("after %s: %v", time.Since(began), got)
		}
		write.finish(nil)
		f.work.Wait()
		for _, answer := range []<-chan error{b, c} {
			if err := <-answer; err != nil {
				t.Error(err)
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
		for total := 0; total < callers; {
			write := <-f.started
			if len(write.msgs) > maxRound {
				t.Errorf("a write of %d", len(write.msgs))
			}
			total += len(write.msgs)
			write.finish(nil)
		}
		wg.Wait()
		f.work.Wait()
	})
}

// Fails when a disk that is too slow is given more and more, or when the room of a message is not given back: then nothing is written for ever.
func TestFewMessagesAreWrittenAndNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, unconfirmed, most := newFakeStream(), atomic.Int64{}, int64(0)
		f.unconfirmed = semaphore.NewWeighted(maxUnconfirmed)
		f.write = func(_ context.Context, msgs []*nats.Msg) []outcome {
			most = max(most, unconfirmed.Add(int64(len(msgs))))
			return make([]outcome, len(msgs))
		}
		f.confirm = func(_ context.Context, out []outcome) {
			pass(publishTimeout / 10)
			unconfirmed.Add(-int64(len(out)))
		}
		broken, failed := errors.New("body"), atomic.Int64{}
		var wg sync.WaitGroup
		for i := range 3 * maxUnconfirmed {
			wg.Go(func() {
				e := entry{msg: newMsg(fmt.Sprint(i), nil)}
				if i%2 == 0 {
					e.body = func() ([]byte, error) { return nil, broken }
				}
				if _, err := f.commit(t.Context(), e); err != nil {
					failed.Add(1)
				}
			})
		}
		wg.Wait()
		f.work.Wait()
		if most > maxUnconfirmed || failed.Load() != 3*maxUnconfirmed/2 {
			t.Errorf("%d were written and not confirmed, %d failed", most, failed.Load())
		}
	})
}

// Fails when an entry without waiting callers is written nevertheless: under load the backlog would grow without end.
func TestAMessageThatAllCallersGaveUpIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream()
		first := f.join(t.Context(), "first", 1)
		write := <-f.started
		ctx, cancel := context.WithCancel(t.Context())
		gone, halfGone := f.join(ctx, "gone", 1), f.join(ctx, "half", 1)
		stays := f.join(t.Context(), "half", 2)
		cancel()
		if !errors.Is(<-gone, context.Canceled) || !errors.Is(<-halfGone, context.Canceled) {
			t.Error("who gave up is not told so")
		}
		write.finish(nil)
		write = <-f.started
		if got := bodies(write.msgs); !cmp.Equal(got, []string{"half=2"}) {
			t.Errorf("written: %v", got)
		}
		write.finish(nil)
		f.work.Wait()
		if err := errors.Join(<-first, <-stays); err != nil {
			t.Error(err)
		}
	})
}

// lateFuture is the future of a message that the server answers after its sender was answered with an error.
type lateFuture struct {
	jetstream.PubAckFuture
	ok  chan *jetstream.PubAck
	err chan error
}

func (f *lateFuture) Ok() <-chan *jetstream.PubAck { return f.ok }
func (f *lateFuture) Err() <-chan error            { return f.err }

// Fails when a message that the server has not answered counts as absent from the stream, or when its sender waits for a late answer.
func TestARoundAwaitsAnAnswerThatItsSenderDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream()
		f.write = func(context.Context, []*nats.Msg) []outcome {
			pass(2 * publishTimeout)
			return []outcome{{ack: jetstream.PubAck{Sequence: 5}}}
		}
		began, stored := time.Now(), make(chan time.Duration, 1)
		_, err := f.commit(t.Context(), entry{msg: newMsg("a", nil), stored: func(jetstream.PubAck) { stored <- time.Since(began) }})
		if took := time.Since(began); took != publishTimeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the sender got %v after %s", err, took)
		}
		if after := <-stored; after != 2*publishTimeout {
			t.Errorf("stored after %s", after)
		}
		f.work.Wait()
	})
}

// Fails when the end of the bus waits for an answer that may never come.
func TestTheEndOfTheBusAwaitsNoAnswer(t *testing.T) {
	b := newBus(Options{})
	b.end()
	if o := b.await(t.Context(), streamEvents, sending{answer: &lateFuture{}}); !errors.Is(o.err, nats.ErrConnectionClosed) {
		t.Errorf("not answered: %+v", o)
	}
}
