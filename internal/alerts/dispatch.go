package alerts

import (
	"context"
	"errors"
	"sort"
	"time"

	"notifier/internal/event"
)

// spillAfter is how long a delivery may keep its event open. A longer delivery, at a slow destination or behind a limit, is put on the
// schedule as well, so that a crash has few events handled again, and the bound on open events is not reached.
const spillAfter = 30 * time.Second

// Dispatch takes deliveries in, those of an event after those of earlier events. Each is acknowledged when it is sent, waits on the bus, or is
// a dead letter. Dispatch may change the order of ds, and keeps it. It returns an error only when ctx ends. While a
// shard's backlog is being read, its deliveries are kept for it, and those of other shards proceed. The bus bounds the kept deliveries: it
// limits the number of open events.
func (d *Deliverer) Dispatch(ctx context.Context, ds []event.Message[event.Delivery]) error {
	shards := make([]int, len(ds))
	for i := range ds {
		shards[i] = d.Bus.DeliveryShard(ds[i].Value.Namespace, ds[i].Value.Provider)
	}
	sort.Stable(byShard{shards, ds})
	for len(ds) > 0 {
		n := 1
		for n < len(ds) && shards[n] == shards[0] {
			n++
		}
		if err := d.admit(ctx, shards[0], ds[:n:n]); err != nil {
			return err
		}
		ds, shards = ds[n:], shards[n:]
	}
	return nil
}

// admit hands deliveries to their shard.
func (d *Deliverer) admit(ctx context.Context, shard int, batch []event.Message[event.Delivery]) error {
	for {
		s, term := d.shards.getOrKeep(shard, early{ctx, batch})
		if s == nil || s.call(ctx, func(work context.Context) { s.admitAll(work, batch, term) }) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// byShard sorts deliveries by their shards. It sorts in place, since deliveries are large.
type byShard struct {
	shards []int
	ds     []event.Message[event.Delivery]
}

func (b byShard) Len() int           { return len(b.ds) }
func (b byShard) Less(i, j int) bool { return b.shards[i] < b.shards[j] }

func (b byShard) Swap(i, j int) {
	b.shards[i], b.shards[j] = b.shards[j], b.shards[i]
	b.ds[i], b.ds[j] = b.ds[j], b.ds[i]
}

// Full reports whether so many deliveries of a namespace are in memory that its next events are to wait.
func (d *Deliverer) Full(namespace string) bool { return d.shares.full(namespace) }

// Begin begins a term of the router. During it, behind reports whether events of a namespace that were on the bus at the beginning are not yet
// dispatched.
func (d *Deliverer) Begin(behind func(namespace string) bool) { d.shards.beginTerm(behind) }

// CaughtUp reports that behind has become false for a namespace or more.
func (d *Deliverer) CaughtUp(ctx context.Context) {
	for _, s := range d.shards.all() {
		s.call(ctx, s.catchUp)
	}
}

// Spill asks for the deliveries of events up to a place in the stream to be acknowledged soon.
func (d *Deliverer) Spill(ctx context.Context, order uint64) {
	for _, s := range d.shards.all() {
		s.call(ctx, func(work context.Context) {
			s.spill(work, func(it *item) bool { return it.entry.order <= order })
		})
	}
}

// call has the loop run f, and reports whether it does. Tasks must not call it.
func (s *shard) call(ctx context.Context, f func(work context.Context)) bool {
	select {
	case s.calls <- f:
		return true
	case <-s.stopped:
	case <-ctx.Done():
	}
	return false
}

// catchUp starts the rescheduled deliveries that awaited older events.
func (s *shard) catchUp(work context.Context) {
	for _, q := range s.queues {
		if q.awaiting {
			s.pump(work, q)
		}
	}
}

// admitAll takes in the deliveries of events that were just routed, in a router's term.
func (s *shard) admitAll(work context.Context, batch []event.Message[event.Delivery], term int) {
	now := time.Now()
	touched := make([]*queue, 0, 8)
	for _, h := range batch {
		q := s.takeIn(work, h, term, now)
		if q != nil && !q.touched {
			q.touched = true
			touched = append(touched, q)
		}
	}
	for _, q := range touched {
		q.touched = false
		s.enforceShare(work, q)
		s.pump(work, q)
	}
}

// spill acknowledges the events of the deliveries that match and keep their events open. A waiting delivery is moved to the schedule. A
// delivery that is being sent is copied there, and the copy is removed when the outcome is known.
func (s *shard) spill(work context.Context, match func(*item) bool) {
	now := time.Now()
	for it := range s.items {
		switch {
		case !it.direct || !match(it):
		case !it.busy:
			s.putBack(work, it, now)
		case it.line.sending == it:
			s.spillSending(work, it, now)
		}
	}
}

// spillSending puts a copy of a delivery that is being sent on the schedule.
func (s *shard) spillSending(work context.Context, it *item, now time.Time) {
	it.mu.Lock()
	defer it.mu.Unlock()
	if it.storing || it.spilled != nil {
		return
	}
	spilled, d := make(chan struct{}), it.d
	it.spilled = spilled
	d.Reschedules++
	d.Recheck = true
	s.metrics.rescheduled.Inc()
	s.spawn(func() {
		defer close(spilled)
		at := later(s.expiry(&d), now.Add(leastScheduled))
		large := false
		if !s.persist(work, d.Namespace, func(ctx context.Context) (err error) {
			if err = s.Bus.Reschedule(ctx, &d, at); errors.Is(err, event.ErrTooLarge) {
				large, err = true, nil // its event stays open until the outcome is known
			}
			return err
		}) || large {
			return
		}
		s.done(work, it.acker)
		s.post(func() {
			it.entry.rescheduled, it.direct = true, false
			it.twins = s.ackTwins(work, it, verdict{})
		})
	})
}

// awaitSpill waits until a copy that is being put on the schedule is there, and prevents further copies.
func (it *item) awaitSpill() {
	it.mu.Lock()
	it.storing = true
	spilled := it.spilled
	it.mu.Unlock()
	if spilled != nil {
		<-spilled
	}
}
