package alerts

import (
	"context"
	"log/slog"
	"time"

	"notifier/internal/event"
)

const (
	// maxHeld is how many deliveries a shard holds, short of what the bus hands out without an outcome (4096), so that intake
	// goes on. Beyond it everything that cannot be sent at once goes back to the schedule.
	maxHeld = 3500
	// maxHeldBytes is about how many bytes of events all shards together hold. Beyond it each queue keeps no more than a probe's
	// worth.
	maxHeldBytes = 128 << 20
	// maxTwins bounds the messages that are held for one delivery; more of them are returned.
	maxTwins = 8
	// workers bounds the concurrent writes to the bus for deliveries that are put away without a send.
	workers = 64
	// tickEvery is how often the bus is told that deliveries are still held, well within event.HoldTime, and all that has no
	// timer of its own is seen to.
	tickEvery = 10 * time.Second
	// What stood on the bus at takeover is taken in, message by message, before anything is sent. Some of it may have ended
	// elsewhere: the wait is over as well when nothing came for gatherQuiet, and gatherMost after the takeover.
	gatherQuiet = 2 * time.Second
	gatherMost  = 10 * time.Second
)

// shard is the state of one shard, owned by the goroutine in run. Tasks, which send and write to the bus, hand their results
// to it as functions.
type shard struct {
	*Deliverer
	log    *slog.Logger
	number int

	queues map[destinationKey]*queue
	// items are all that is held, busy or not; parking counts those on their way out without a send.
	items   map[*item]struct{}
	parking int
	// longest is the queue that most lately had the most waiting items.
	longest *queue
	wakes   wakes

	// tasks counts those whose end the loop has not seen.
	tasks    int
	slots    chan struct{}
	results  chan func()
	draining bool

	// awaited counts the messages that stood on the bus at takeover and did not come yet. Until it is zero, or gatherEnd, nothing
	// is sent; gatherEnd moves with each delivery that comes, up to gatherLimit.
	awaited                int
	gatherEnd, gatherLimit time.Time

	// asked is when the bus was last asked what is parked.
	asked, askedAll time.Time
	asking          bool

	// heldShown, awayShown and openShown are this shard's part in the gauges.
	heldShown, awayShown, openShown int
}

func newShard(d *Deliverer, number int) *shard {
	now := time.Now()
	return &shard{
		Deliverer: d, log: d.Log.With("shard", number), number: number,
		queues: map[destinationKey]*queue{}, items: map[*item]struct{}{},
		slots: make(chan struct{}, workers), results: make(chan func(), workers),
		asked: now, askedAll: now, gatherEnd: now.Add(gatherQuiet), gatherLimit: now.Add(gatherMost),
	}
}

// expect notes what is on the bus at takeover: what is due is waited for, and what is on the schedule must come before its
// successors.
func (s *shard) expect(backlog event.Backlog, now time.Time) {
	if s.awaited = backlog.Due; s.awaited == 0 {
		s.gatherEnd = time.Time{}
	}
	for _, p := range backlog.Parked {
		s.queue(p.Namespace, p.Provider, now).place(p.ObjectKey, p.Order, p.ID, now)
	}
}

func (s *shard) queue(namespace, provider string, now time.Time) *queue {
	key := destinationKey{namespace, provider}
	q := s.queues[key]
	if q == nil {
		q = newQueue(key, now)
		s.queues[key] = q
	}
	return q
}

// run serves the shard until ctx ends or in is closed.
func (s *shard) run(ctx context.Context, in <-chan event.Held[event.Delivery]) {
	// Sends and writes outlive the ownership by the time of the drain.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for open := true; open && ctx.Err() == nil; {
		timer.Reset(s.nextWake())
		select {
		case <-ctx.Done():
		case h, ok := <-in:
			if open = ok; ok {
				s.admit(work, h)
				s.gather(work, time.Now())
			}
		case f := <-s.results:
			f()
		case <-timer.C:
			s.wake(work)
		case <-ticker.C:
			s.tick(work)
		}
	}
	s.drain(stop)
}

func (s *shard) nextWake() time.Duration {
	switch {
	case s.awaited > 0:
		return max(0, time.Until(s.gatherEnd))
	case len(s.wakes) == 0:
		return time.Hour
	}
	return max(0, time.Until(s.wakes[0].wakeAt))
}

// gather notes that the bus handed a message out. A schedule may have fired while the shard had no owner, so that a predecessor
// that was put back stands in the stream behind its successors, and is not on the schedule any more: nothing may be sent before
// all that stood there is known (invariant E4).
func (s *shard) gather(work context.Context, now time.Time) {
	if s.awaited == 0 {
		return
	}
	s.awaited--
	s.gatherEnd = now.Add(gatherQuiet)
	if s.gatherLimit.Before(s.gatherEnd) {
		s.gatherEnd = s.gatherLimit
	}
	s.wake(work)
}

func (s *shard) wake(work context.Context) {
	now := time.Now()
	if s.awaited > 0 && now.Before(s.gatherEnd) {
		return
	}
	if !s.gatherEnd.IsZero() {
		s.awaited, s.gatherEnd = 0, time.Time{}
		for _, q := range s.queues {
			s.pump(work, q)
		}
	}
	for q := s.wakes.due(now); q != nil; q = s.wakes.due(now) {
		s.pump(work, q)
	}
}

// admit takes in a delivery.
func (s *shard) admit(work context.Context, h event.Held[event.Delivery]) {
	now := time.Now()
	d := h.Value
	q := s.queue(d.Namespace, d.Provider, now)
	l, e, _ := q.place(event.ObjectKey(d.Object()), d.Order, d.ID, now)
	if e.item != nil {
		s.join(e.item, h)
		return
	}
	it := q.hold(l, e, d, h.Settler)
	s.items[it] = struct{}{}
	s.heldBytes.Add(it.bytes())
	s.enqueue(it)
	s.pump(work, q)
}

// join adds a further message to a delivery that is held already.
func (s *shard) join(it *item, h event.Held[event.Delivery]) {
	if len(it.twins) >= maxTwins {
		s.giveBack(h.Settler)
		return
	}
	if !it.busy && h.Value.Parks > it.d.Parks {
		// The newer copy knows of more attempts.
		it.d, h.Value = h.Value, it.d
		it.settler, h.Settler = h.Settler, it.settler
	}
	it.twins = append(it.twins, h)
}

func (s *shard) enqueue(it *item) {
	it.queue.enqueue(it)
	if s.longest == nil || len(it.queue.waiting) > len(s.longest.waiting) {
		s.longest = it.queue
	}
}

// spawn runs a task, which the drain waits for. Only the loop may call it.
func (s *shard) spawn(task func()) {
	s.tasks++
	go func() {
		task()
		s.post(func() { s.tasks-- })
	}()
}

// post has the loop run f. Only tasks may call it.
func (s *shard) post(f func()) { s.results <- f }

func (s *shard) giveBack(m event.Settler) {
	if err := m.Return(); err != nil {
		s.log.Debug("message not returned, the bus hands it out again later", "error", err)
	}
}

// drain returns what nobody works on, and lets the tasks end: sends within DrainTimeout, after which they are cut off and their
// deliveries returned.
func (s *shard) drain(stop context.CancelFunc) {
	s.draining = true
	for it := range s.items {
		if !it.busy {
			s.returnAll(it)
		}
	}
	cutOff := time.AfterFunc(s.DrainTimeout, stop)
	defer cutOff.Stop()
	for s.tasks > 0 {
		(<-s.results)()
	}
	s.show(0, 0, 0)
	s.showOldest(s.number, time.Time{})
}

// returnAll gives an item's messages back to the bus.
func (s *shard) returnAll(it *item) {
	s.giveBack(it.settler)
	for _, t := range it.twins {
		s.giveBack(t.Settler)
	}
	delete(s.items, it)
	s.heldBytes.Add(-it.bytes())
}

// show sets the shard's part in the gauges.
func (s *shard) show(held, away, open int) {
	s.metrics.held.Add(float64(held - s.heldShown))
	s.metrics.away.Add(float64(away - s.awayShown))
	s.metrics.breakers.Add(float64(open - s.openShown))
	s.heldShown, s.awayShown, s.openShown = held, away, open
}
