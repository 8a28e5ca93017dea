package alerts

import (
	"context"
	"slices"
	"sync"
	"time"

	"notifier/internal/event"
)

// spillAfter is how long a delivery may hold its event. What takes longer, at a slow destination or behind a limit, is put on the schedule
// beside, so that the events behind it are not handled again after a crash, however long the wait.
const spillAfter = 30 * time.Second

// Dispatch implements Dispatcher. While a shard's backlog is being read its deliveries are kept for it, and those of other shards go on.
// The bus bounds what is kept: it hands out no more events than may be open.
func (d *Deliverer) Dispatch(ctx context.Context, ds []event.Message[event.Delivery]) error {
	shards := make([]int, len(ds))
	for i := range ds {
		shards[i] = d.Source.DeliveryShard(ds[i].Value.Namespace, ds[i].Value.Provider)
	}
	if !slices.ContainsFunc(shards, func(n int) bool { return n != shards[0] }) { // most events are one Provider's
		return d.admit(ctx, shards[0], ds)
	}
	for n, batch := range byShard(shards, ds) {
		if err := d.admit(ctx, n, batch); err != nil {
			return err
		}
	}
	return nil
}

// admit hands deliveries to their shard.
func (d *Deliverer) admit(ctx context.Context, shard int, batch []event.Message[event.Delivery]) error {
	for {
		s := d.shards.getOrKeep(shard, early{ctx, batch})
		if s == nil || s.call(ctx, func(work context.Context) { s.admitAll(work, batch) }) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// early are deliveries that were dispatched before their shard was served, by a router that works until ctx ends.
type early struct {
	ctx   context.Context
	batch []event.Message[event.Delivery]
}

// byShard divides deliveries among their shards, in their order.
func byShard(shards []int, ds []event.Message[event.Delivery]) map[int][]event.Message[event.Delivery] {
	sizes := map[int]int{}
	for _, n := range shards {
		sizes[n]++
	}
	batches := make(map[int][]event.Message[event.Delivery], len(sizes))
	for i, n := range shards {
		if batches[n] == nil {
			batches[n] = make([]event.Message[event.Delivery], 0, sizes[n])
		}
		batches[n] = append(batches[n], ds[i])
	}
	return batches
}

// CaughtUp implements Dispatcher.
func (d *Deliverer) CaughtUp(ctx context.Context, yes bool) {
	for _, s := range d.shards.caughtUp(yes) {
		s.call(ctx, s.catchUp)
	}
}

// Spill implements Dispatcher.
func (d *Deliverer) Spill(ctx context.Context, order uint64) {
	for _, s := range d.shards.all() {
		s.call(ctx, func(work context.Context) {
			s.spill(work, func(it *item) bool { return it.entry.order <= order })
		})
	}
}

// serving are the shards that are served here.
type serving struct {
	mu     sync.Mutex
	shards map[int]*shard
	early  map[int][]early
	// caught says that what stood among the events at the beginning was dispatched.
	caught bool
	// count is how many shards there are, begun how many of them count what they have on the bus for the ledger or have done so.
	count, begun int
	ledger       *Ledger
}

func newServing(count int, l *Ledger) *serving {
	return &serving{shards: map[int]*shard{}, early: map[int][]early{}, count: count, ledger: l}
}

// begin has the ledger begin with the first shard of a term. What a shard counts is given to the ledger after that.
func (v *serving) begin(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.begun == 0 {
		v.ledger.begin(now)
	}
	v.begun++
}

// end has it forget everything with the last one.
func (v *serving) end(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.begun--; v.begun == 0 {
		v.ledger.begin(now)
	}
}

// add takes a shard up. It returns what was dispatched to it before, and whether all events that stood on the bus at the beginning were.
func (v *serving) add(s *shard) (dispatched []early, caughtUp bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shards[s.number] = s
	if len(v.shards) == v.count {
		v.ledger.complete()
	}
	dispatched = v.early[s.number]
	delete(v.early, s.number)
	return dispatched, v.caught
}

// remove takes a shard away. With returned it gave deliveries back that are to be dispatched again, before its successor is caught up.
func (v *serving) remove(s *shard, returned bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.shards, s.number)
	v.ledger.incomplete()
	if returned {
		v.caught = false
	}
}

// get returns the shard of a number, nil while it is not served here.
func (v *serving) get(number int) *shard {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shards[number]
}

// getOrKeep is get, and keeps the deliveries for a shard that is not served.
func (v *serving) getOrKeep(number int, e early) *shard {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.shards[number]
	if s == nil {
		v.early[number] = append(v.early[number], e)
	}
	return s
}

// caughtUp sets whether shards that are added are caught up from the beginning, and returns those to tell that they are.
func (v *serving) caughtUp(yes bool) []*shard {
	v.mu.Lock()
	v.caught = yes
	v.mu.Unlock()
	if !yes {
		return nil
	}
	return v.all()
}

func (v *serving) all() []*shard {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make([]*shard, 0, len(v.shards))
	for _, s := range v.shards {
		all = append(all, s)
	}
	return all
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

// catchUp lets go what was rescheduled before the shard was served.
func (s *shard) catchUp(work context.Context) {
	s.caughtUp = true
	for _, q := range s.queues {
		s.pump(work, q)
	}
}

// admitAll takes in deliveries whose events were just routed.
func (s *shard) admitAll(work context.Context, batch []event.Message[event.Delivery]) {
	now := time.Now()
	touched := make([]*queue, 0, 8)
	for _, h := range batch {
		q := s.takeIn(work, h, true, now)
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

// spill has the deliveries that hold their events and match settle those: what waits goes to the schedule, and of what is being sent a copy,
// which is taken away when the outcome is known.
func (s *shard) spill(work context.Context, match func(*item) bool) {
	now := time.Now()
	for it := range s.items {
		switch {
		case !it.direct || !match(it):
		case !it.busy:
			s.putBack(work, it, now)
		case it.sending:
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
		at := later(s.expiry(&d), now.Add(leastShelved))
		if !s.persist(work, d.Namespace, func(ctx context.Context) error { return s.Schedule.Reschedule(ctx, &d, at) }) {
			return
		}
		s.done(work, it.acker)
		s.post(func() {
			it.entry.rescheduled, it.direct = true, false
			for _, t := range it.twins {
				s.spawn(func() { s.done(work, t.Acker) })
			}
			it.twins = nil
		})
	})
}

// awaitSpill waits until a copy that is being put on the schedule is there, and sees to it that none is from now on.
func (it *item) awaitSpill() {
	it.mu.Lock()
	it.storing = true
	spilled := it.spilled
	it.mu.Unlock()
	if spilled != nil {
		<-spilled
	}
}
