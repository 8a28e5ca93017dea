package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"notifier/internal/fair"
)

// errNoIDs says that a repetition of an event of before the start would not be recognized.
var errNoIDs = errors.New("the IDs of the last events are not read")

const (
	// serverDuplicates is the duplicate window of EVENTS in the embedded server. It is for a publish whose outcome never became known, since
	// the connection was lost: the first repetition comes within a second or two.
	serverDuplicates = 2 * time.Second
	// lateAnswer is how long the embedded server's answer to the publish of an event is awaited, from the publish on. Its sender is answered
	// with an error after publishTimeout. Until the answer no other round begins, since the event may be in the stream.
	lateAnswer = time.Minute
	// maxDuplicates bounds the IDs that are kept for the duplicate window: 34 MiB at most.
	maxDuplicates = 1 << 20
	// maxLoaded bounds the IDs that a start reads from the stream, the newest of the window: reading more would hold up the start. A window of
	// five minutes has fewer up to 109 events a second, which are more than those of 50,000 objects that reconcile every ten minutes.
	maxLoaded = 1 << 15
)

// duplicates has the IDs of the events that EVENTS took within the duplicate window, for the embedded server, where this process alone
// publishes. The server takes up to 190 bytes and three objects for an ID of its own window. At some thousands of events a second that would
// soon be most of the heap, and each collection would visit all of it: the IDs of ten seconds were more than half of all objects.
//
// An ID that is published again while the first publish has no outcome is in a later round, or behind it in the same round, since both have
// one subject. So it is looked for once more right before it is sent.
//
// Of more than maxDuplicates in a window, and of more than maxLoaded before a restart, the oldest are forgotten sooner.
type duplicates struct {
	window time.Duration
	// loaded, unless nil, is closed when the IDs of before the start are known. Until then no event is published.
	loaded chan struct{}

	mu  sync.Mutex
	ids recentIDs[place]
}

// place is where an event is in EVENTS, and when it was stored, in nanoseconds since 1970.
type place struct {
	seq uint64
	at  int64
}

func newDuplicates(window time.Duration) *duplicates {
	return &duplicates{window: window, ids: recentIDs[place]{most: maxDuplicates, age: window}}
}

// keep records the outcome of a publish, unless d is nil.
func (d *duplicates) keep(m *nats.Msg, o outcome) {
	if d != nil && o.err == nil {
		d.add(header(m.Header, nats.MsgIdHdr), o.ack.Sequence, time.Now())
	}
}

// add records that EVENTS has the event of an ID.
func (d *duplicates) add(id string, seq uint64, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids.add(at, digest(id), place{seq, at.UnixNano()})
}

// find returns the sequence of the event with an ID, if EVENTS took it within the window before now. It finds none if d is nil.
func (d *duplicates) find(id string, now time.Time) (seq uint64, found bool) {
	if d == nil {
		return 0, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p, found := d.ids.find(digest(id))
	return p.seq, found && now.UnixNano()-p.at < int64(d.window)
}

// await returns when the IDs of before the start are known, or with an error within publishTimeout.
func (d *duplicates) await(ctx context.Context) error {
	if d.known() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	select {
	case <-d.loaded:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errNoIDs, ctx.Err())
	}
}

// known reports whether the IDs of before the start are known.
func (d *duplicates) known() bool {
	if d == nil || d.loaded == nil {
		return true
	}
	select {
	case <-d.loaded:
		return true
	default:
		return false
	}
}

// loadDuplicates reads the IDs of the last window from the embedded server's stream. While the disk stands still it tries again, until ctx
// ends.
func (b *Bus) loadDuplicates(ctx context.Context) {
	warnings := rate.Sometimes{Interval: warnEvery}
	f := feed{bus: b, from: time.Now().Add(-b.opts.DuplicateWindow), most: maxLoaded, headers: true}
	for {
		err := f.run(ctx, func(l logEntry) error {
			b.duplicates.add(header(l.msg.Header, nats.MsgIdHdr), l.seq, l.stored)
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			close(b.duplicates.loaded)
			return
		}
		warnings.Do(func() {
			b.log.Warn("no event is accepted yet, trying again", "error", fmt.Errorf("%w: %w", errNoIDs, err))
		})
		_ = fair.Sleep(ctx, openRetry)
	}
}
