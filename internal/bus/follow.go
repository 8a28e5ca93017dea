package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/bus/browse"
	"notifier/internal/event/view"
	"notifier/internal/fair"
)

const (
	// maxBehind is how many items may wait for one follower.
	maxBehind = 1024
	// followPoll is how often a polled stream is asked for new messages.
	followPoll = 500 * time.Millisecond
	// followReport is how often a follower is told how far the streams are read.
	followReport = 2 * time.Second
)

// ErrSlow ends a follower that takes its items more slowly than they are published.
var ErrSlow = errors.New("follower is too slow")

// Follow calls handle with a view.Begun and then with the new items of a list of a namespace, a view.Delivery, view.Event or view.Webhook
// each, in the order of each stream. It returns nil when ctx ends, the error of handle when that fails, and ErrSlow when handle is too
// slow. All items that are stored from view.Begun on are new, and some of those stored since the call may be included. A view.Reached
// is among them every few seconds while the streams can be read.
//
// All followers of this process share one reader for each stream, and a stream without followers is not read.
func (b *Bus) Follow(ctx context.Context, namespace string, list view.List, handle func(item any) error) error {
	feeds := b.reads.feeds[list]
	if len(feeds) == 0 {
		return fmt.Errorf("follow: there is no list %q", list)
	}
	f := &follower{namespace: namespace, items: make(chan any, maxBehind), slow: make(chan struct{})}
	var begun []<-chan struct{}
	for _, feed := range feeds {
		begun = append(begun, feed.join(ctx, f))
		defer feed.leave(f)
	}
	for _, begun := range begun {
		select {
		case <-ctx.Done():
			return nil
		case <-begun:
		}
	}
	if err := handle(view.Begun{}); err != nil {
		return err
	}
	return f.follow(ctx, feeds, handle)
}

// follow calls handle with the items of feeds.
func (f *follower) follow(ctx context.Context, feeds []*followed, handle func(item any) error) error {
	report := time.NewTicker(followReport)
	defer report.Stop()
	var reported time.Time
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-f.slow:
			return fmt.Errorf("follow: %w", ErrSlow)
		case item := <-f.items:
			err = handle(item)
		case <-report.C:
			at := reachedBy(feeds) // the items until then are in the queue
			for n := len(f.items); n > 0 && err == nil; n-- {
				err = handle(<-f.items)
			}
			if err == nil && at.After(reported) {
				reported = at
				err = handle(view.Reached{At: at})
			}
		}
		if err != nil {
			return err
		}
	}
}

// reachedBy returns the time until which all of some streams are read, zero if it is unknown of one.
func reachedBy(feeds []*followed) time.Time {
	var least time.Time
	for i, feed := range feeds {
		at := feed.reached.Load()
		if at == nil {
			return time.Time{}
		}
		if i == 0 || at.Before(least) {
			least = *at
		}
	}
	return least
}

// follower is one call of Follow.
type follower struct {
	namespace string
	items     chan any
	slow      chan struct{} // closed when the queue of items was full
	late      sync.Once
}

// offer adds an item to the follower's queue, or ends the follower when that is full.
func (f *follower) offer(item any) {
	select {
	case f.items <- item:
	default:
		f.late.Do(func() { close(f.slow) })
	}
}

// followed is a stream as its followers read it.
type followed struct {
	reads  *reads
	stream string
	// polled is true when the stream is asked for new messages instead of read by a consumer: a work queue allows no consumer without
	// acknowledgements.
	polled bool
	// decode returns the items of a message, oldest first.
	decode func(*jetstream.RawStreamMsg) []any

	// changing is locked while a follower joins or leaves.
	changing sync.Mutex
	stop     context.CancelFunc
	stopped  chan struct{}
	// begun is closed when it is known where reading begins.
	begun chan struct{}
	// reached is a time before which all stored messages have been told, nil if none is known.
	reached atomic.Pointer[time.Time]

	mu        sync.Mutex
	followers map[string]map[*follower]struct{} // by namespace
}

// newFeeds returns the streams that each list is made of.
func newFeeds(r *reads) map[view.List][]*followed {
	feed := func(stream string, decode func(*jetstream.RawStreamMsg) []any) *followed {
		return &followed{reads: r, stream: stream, decode: decode, followers: map[string]map[*follower]struct{}{}}
	}
	waiting := feed(streamDeliveries, anyOf(pendingViews))
	waiting.polled = true
	return map[view.List][]*followed{
		view.Deliveries: {feed(streamHistory, anyOf(sentViews)), feed(streamDeadLetters, anyOf(deadViews)), waiting},
		view.Events:     {feed(streamEvents, anyOf(eventViews))},
		view.Webhooks:   {feed(streamWebhooks, anyOf(webhookViews))},
	}
}

func anyOf[T any](decode func(*jetstream.RawStreamMsg) []T) func(*jetstream.RawStreamMsg) []any {
	return func(m *jetstream.RawStreamMsg) (items []any) {
		for _, item := range decode(m) {
			items = append(items, item)
		}
		return items
	}
}

// join adds a follower, and begins to read with the first one. The returned channel is closed when all messages stored from then on will be
// read.
func (f *followed) join(ctx context.Context, one *follower) (begun <-chan struct{}) {
	f.changing.Lock()
	defer f.changing.Unlock()
	f.mu.Lock()
	first := len(f.followers) == 0
	if f.followers[one.namespace] == nil {
		f.followers[one.namespace] = map[*follower]struct{}{}
	}
	f.followers[one.namespace][one] = struct{}{}
	f.mu.Unlock()
	if !first {
		return f.begun
	}
	ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx)) // others may follow for longer
	f.stopped, f.begun = make(chan struct{}), make(chan struct{})
	go f.run(ctx, f.begun, f.stopped)
	return f.begun
}

// leave removes a follower. With the last one it returns when reading has ended.
func (f *followed) leave(one *follower) {
	f.changing.Lock()
	defer f.changing.Unlock()
	f.mu.Lock()
	delete(f.followers[one.namespace], one)
	if len(f.followers[one.namespace]) == 0 {
		delete(f.followers, one.namespace)
	}
	last := len(f.followers) == 0
	f.mu.Unlock()
	if last {
		f.stop()
		<-f.stopped
	}
}

// run reads the messages stored from now on, until ctx ends. After an interruption it resumes at its place.
func (f *followed) run(ctx context.Context, begun, stopped chan<- struct{}) {
	defer close(stopped)
	var p followedPlace
	read := f.read
	if f.polled {
		read = f.poll
	}
	f.reads.bus.resuming(ctx, f.stream, func() error {
		stream, err := f.reads.stream(ctx, f.stream)
		if err != nil {
			return err
		}
		if err := p.find(ctx, stream, begun); err != nil {
			return err
		}
		return read(ctx, stream, &p)
	})
}

// followedPlace is where a stream is read: at a sequence, behind a message that was stored before a time.
type followedPlace struct {
	next  uint64
	since time.Time
}

func (p *followedPlace) read(seq uint64, stored time.Time) { p.next, p.since = seq+1, stored.Add(1) }

// find finds where reading goes on, and at first where it begins: behind the last message, independently of the clocks of the replicas.
func (p *followedPlace) find(ctx context.Context, stream browse.Stream, begun chan<- struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if p.next > 0 {
		next, err := stream.Resume(ctx, p.next, p.since)
		if err == nil {
			p.next = next
		}
		return err
	}
	last, err := stream.GetLastMsgForSubject(ctx, everythingElse)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	p.next = 1
	if err == nil {
		p.read(last.Sequence, last.Time)
	}
	close(begun)
	return nil
}

func (f *followed) read(ctx context.Context, stream browse.Stream, p *followedPlace) error {
	opening, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiTimeout) // a consumer that is half made when ctx ends could not be removed
	msgs, err := f.reads.bus.readFrom(opening, stream, p.next, time.Time{}, false)
	cancel()
	if err != nil {
		return err
	}
	defer msgs.Stop()
	var end streamEnd
	for {
		if time.Since(end.at) > followReport {
			if end, err = msgs.end(ctx); err != nil {
				return err
			}
		}
		if msgs.read >= end.count {
			at := end.at
			f.reached.Store(&at)
		}
		m, meta, err := msgs.next(ctx)
		if err != nil {
			return err
		}
		if m == nil {
			end = streamEnd{}
			continue
		}
		p.read(meta.Sequence.Stream, meta.Timestamp)
		f.tell(&jetstream.RawStreamMsg{Subject: m.Subject(), Sequence: meta.Sequence.Stream, Time: meta.Timestamp, Header: m.Headers(), Data: m.Data()})
	}
}

// poll reads the stream by requests for the next message. It ends after a reconnection: the server may have lost its end meanwhile.
func (f *followed) poll(ctx context.Context, stream browse.Stream, p *followedPlace) error {
	connected := stream.Conn.Stats().Reconnects
	for {
		at := time.Now()
		m, err := stream.GetMsg(ctx, p.next, jetstream.WithGetMsgSubject(everythingElse))
		if stream.Conn.Stats().Reconnects != connected {
			return errInterrupted
		}
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			f.reached.Store(&at)
			err = fair.Sleep(ctx, followPoll)
		} else if err == nil {
			p.read(m.Sequence, m.Time)
			f.tell(m)
		}
		if err != nil {
			return err
		}
	}
}

// tell offers a message's items to the followers of its namespace. It waits for none of them.
func (f *followed) tell(m *jetstream.RawStreamMsg) {
	f.mu.Lock()
	followers := maps.Clone(f.followers[namespaceOf(m.Subject)])
	f.mu.Unlock()
	if len(followers) == 0 {
		return
	}
	for _, item := range f.decode(m) {
		for one := range followers {
			one.offer(item)
		}
	}
}
