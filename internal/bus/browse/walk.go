package browse

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// firstWindow is how many sequences the first window has, and maxWindow the largest: some 20 MB of the history, which are three blocks of
	// it.
	firstWindow = 64
	maxWindow   = 1 << 16
	// rangeWindow is the largest window whose messages are all read by one request; in larger ones those of the filter are read one by one.
	rangeWindow = 256
	// rangeBytes bounds the answer to that in bytes.
	rangeBytes = 1 << 20
	// maxFound bounds the messages of a window that are kept, maxEach those that are read one by one before the window is made smaller.
	maxFound = 64
	maxEach  = 4 * maxFound
	// windowBytes bounds the bytes that are read of a window, and so those that are kept, before the window is made smaller.
	windowBytes = 8 << 20
	// growth is how many times larger the window after an empty one is.
	growth = 8
)

// ErrSpent says that a walk has done as much as its Budget allows, and may continue with another one.
var ErrSpent = errors.New("the work of one page is done")

// Budget bounds the work that the walkers of one page do together.
type Budget struct {
	// Messages and Bytes bound the messages read, Requests the requests to the server.
	Messages, Bytes, Requests int
	// Until is when the walk ends.
	Until time.Time
}

// use subtracts a message that was read from the budget.
func (b *Budget) use(m *jetstream.RawStreamMsg) {
	b.Messages--
	b.Bytes -= len(m.Data)
}

func (b *Budget) left() bool {
	return b.Messages > 0 && b.Bytes > 0 && b.Requests > 0 && time.Now().Before(b.Until)
}

// Walker reads the messages of a filter in a stream backwards.
type Walker struct {
	Stream Stream
	// Filter selects the subjects. Match reports whether a subject is one of them; a message for which it is false is skipped, although the
	// server returned it.
	Filter string
	Match  func(subject string) bool
	Budget *Budget
	// Below is the sequence before which the walk begins, 0 for behind the last message. It is kept up to date: every message from there on
	// was returned.
	Below uint64
	// Since and Until, where they are set, bound the time at which the returned messages were stored: Since inclusively, Until exclusively.
	Since, Until time.Time

	began bool
	// floor is a sequence before which there is no message of the filter.
	floor   uint64
	floored bool
	window  uint64
	// large says that there are large messages. The filter's are then read one by one: those of other subjects may be the large ones.
	large bool
	// found are consecutive messages of the filter, oldest first, that were not returned yet. next is where the window before them ends.
	found []*jetstream.RawStreamMsg
	next  uint64
	// moved says that a window was read. Every walk reads one, whatever its Budget: of large messages that takes several smaller ones.
	moved bool
}

// Prev returns the message before the one returned last, or jetstream.ErrMsgNotFound when there is none. After ErrSpent another walk can continue at Below.
func (w *Walker) Prev(ctx context.Context) (*jetstream.RawStreamMsg, error) {
	if !w.began {
		if err := w.begin(ctx); err != nil {
			return nil, err
		}
	}
	for len(w.found) == 0 {
		if w.next <= w.floor {
			w.Below = 1
			return nil, jetstream.ErrMsgNotFound
		}
		if w.spent() {
			w.Below = w.next
			return nil, ErrSpent
		}
		if err := w.look(ctx); err != nil && !errors.Is(err, ErrSpent) {
			return nil, err
		}
	}
	last := len(w.found) - 1
	m := w.found[last]
	w.found = w.found[:last]
	w.Below = m.Sequence
	return m, nil
}

// spent reports whether the walk ends for now. Before it has read a window it does not: another walk would end at the same place.
func (w *Walker) spent() bool { return w.moved && !w.Budget.left() }

// begin finds where the walk begins and the earliest place where it ends.
func (w *Walker) begin(ctx context.Context) error {
	w.began, w.window, w.floor = true, firstWindow, 1
	if w.Below == 0 {
		last, err := w.Stream.GetLastMsgForSubject(ctx, w.Filter)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			w.Below = 1
		case err != nil:
			return err
		default:
			w.Below = last.Sequence + 1
		}
	}
	for _, bound := range []struct {
		at time.Time
		to func(seq uint64)
	}{{w.Until, func(seq uint64) { w.Below = min(w.Below, seq) }}, {w.Since, func(seq uint64) { w.floor = max(seq, 1) }}} {
		if bound.at.IsZero() || w.Below <= 1 {
			continue
		}
		w.Budget.Requests--
		seq, err := w.Stream.since(ctx, bound.at)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			seq = w.Below // all messages are before that time
		} else if err != nil {
			return err
		}
		bound.to(seq)
	}
	w.next = w.Below
	return nil
}

// look reads the window before next.
func (w *Walker) look(ctx context.Context) error {
	if !w.floored && w.window > firstWindow {
		if err := w.findFloor(ctx); err != nil || w.next <= w.floor {
			return err
		}
	}
	from := w.floor
	if w.next-w.floor > w.window {
		from = w.next - w.window
	}
	count, size := 0, 0
	keep := func(m *jetstream.RawStreamMsg) {
		count++
		size += len(m.Data)
		if len(w.found) == maxFound { // the newest are returned first
			copy(w.found, w.found[1:])
			w.found = w.found[:maxFound-1]
		}
		w.found = append(w.found, m)
	}
	var err error
	if w.Stream.direct() && !w.large && w.next-from <= rangeWindow {
		err = w.all(ctx, from, keep)
		w.large = errors.Is(err, errDense)
	} else {
		err = w.each(ctx, from, keep)
	}
	if errors.Is(err, errDense) {
		w.found, w.window = nil, max(w.window/growth, 1)
		return nil
	}
	if err != nil {
		w.found = nil
		return err
	}
	w.moved = true
	if w.next = from; count > len(w.found) {
		w.next = w.found[0].Sequence
	}
	w.adapt(count, size)
	return nil
}

// adapt chooses the next window by the messages found in the last one: for half as many messages, or bytes, as are kept at a time.
func (w *Walker) adapt(count, size int) {
	wanted := w.window * growth
	if count > 0 {
		wanted = w.window * maxFound / 2 / uint64(count)
	}
	wanted = min(max(wanted, firstWindow), w.window*growth, maxWindow)
	if size > 0 {
		wanted = min(wanted, w.window*windowBytes/2/uint64(size))
	}
	w.window = max(wanted, 1)
}

// all reads all messages of a window, by as few requests as their bytes allow, and keeps those of the filter.
func (w *Walker) all(ctx context.Context, from uint64, keep func(*jetstream.RawStreamMsg)) error {
	for size := 0; from < w.next; {
		if size > windowBytes {
			return errDense
		}
		w.Budget.Requests--
		ended := true
		err := w.Stream.ranged(ctx, request{Seq: from, Batch: int(w.next - from), MaxBytes: rangeBytes}, func(m *jetstream.RawStreamMsg) bool {
			if m.Sequence >= w.next {
				ended = true
				return false
			}
			ended, from = false, m.Sequence+1
			size += len(m.Data)
			w.Budget.use(m)
			if w.Match(m.Subject) {
				keep(m)
			}
			return true
		})
		if err != nil || ended {
			return err
		}
	}
	return nil
}

// errDense says that a window has too many messages of the filter, or too large ones.
var errDense = errors.New("window is too large")

// each reads the messages of the filter in a window one by one.
func (w *Walker) each(ctx context.Context, from uint64, keep func(*jetstream.RawStreamMsg)) error {
	one := w.next-from == 1
	for n, size := 0, 0; from < w.next; n++ {
		if n == maxEach || size > windowBytes && !one {
			return errDense
		}
		if w.spent() { // where each request takes long, a window may take longer than a page may
			return ErrSpent
		}
		w.Budget.Requests--
		m, err := w.Stream.GetMsg(ctx, from, jetstream.WithGetMsgSubject(w.Filter))
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && m.Sequence >= w.next {
			return nil
		}
		if err != nil {
			return err
		}
		w.Budget.use(m)
		size += len(m.Data)
		if from = m.Sequence + 1; w.Match(m.Subject) {
			keep(m)
		}
	}
	return nil
}

// findFloor asks for the oldest message of the filter, whose block the server knows.
func (w *Walker) findFloor(ctx context.Context) error {
	w.floored = true
	w.Budget.Requests--
	m, err := w.Stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(w.Filter))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		w.floor = w.next
	case err != nil:
		return err
	default:
		w.floor = max(w.floor, m.Sequence)
	}
	return nil
}
