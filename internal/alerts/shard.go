package alerts

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"notifier/internal/event"
	"notifier/internal/fair"
)

const (
	// maxHeld is how many deliveries a shard keeps in memory. It is less than the 4096 that the bus hands out without an outcome, so that
	// intake continues. Beyond it, surplus waiting items are put back on the schedule.
	maxHeld = 3500
	// maxHeldBytes is about how many bytes of events all shards together keep in memory. Beyond it each queue keeps only enough deliveries
	// for a probe.
	maxHeldBytes = 128 << 20
	// maxTwins bounds the duplicate messages that are kept for one delivery; the oldest are returned.
	maxTwins = 8
	// writers bounds the concurrent writes to the bus for deliveries that leave memory without a send.
	writers = 64
	// tickEvery is the interval of tick, which extends the deadlines of messages in memory, well within event.AckWait.
	tickEvery = 10 * time.Second
)

// shard is the state of one shard, owned by the goroutine in run. Tasks, which send and write to the bus, post their results to it as
// functions.
type shard struct {
	*Deliverer
	log    *slog.Logger
	number int
	// since is when the shard was taken over.
	since time.Time

	queues map[event.ProviderKey]*queue
	// items are all deliveries in memory, busy or not.
	items map[*item]struct{}
	ticks int
	// load is the state at the last tick, for the gauges.
	load atomic.Pointer[load]
	// dead counts the dead letters. readingLetters says that they are being read, and recountSoon that they are to be counted at the next
	// tick.
	dead                        deadCounts
	readingLetters, recountSoon bool
	// longest is the queue that most recently had the most waiting items.
	longest *queue
	wakes   wakes

	// leaving are the items that leave memory without a send and wait for their write. writing counts those that are being written.
	leaving *fair.Queue[leaving]
	writing int

	// tasks counts the tasks whose end the loop has not seen.
	tasks    int
	results  chan func()
	draining bool

	// calls are run by the loop until stopped is closed.
	calls   chan func(work context.Context)
	stopped chan struct{}
}

func newShard(d *Deliverer, number int) *shard {
	return &shard{
		Deliverer: d, log: d.Log.With("shard", number), number: number, since: time.Now(),
		queues: map[event.ProviderKey]*queue{}, items: map[*item]struct{}{},
		dead: deadCounts{d.Reports, map[event.ProviderKey]*letterCount{}, map[event.ProviderKey]int{}},

		leaving: fair.NewQueue(leaving.namespace), results: make(chan func(), writers),
		calls: make(chan func(context.Context)), stopped: make(chan struct{}),
	}
}

// expect records the deliveries on the bus at takeover. A schedule may have fired while the shard had no owner, so that a delivery is in
// the stream behind its successors: they wait for it (invariant E4). The open events are routed again, and a rescheduled delivery may
// have predecessors among theirs. So no rescheduled delivery is sent until all of these events were routed. A delivery that was rescheduled
// again while it was handed out is listed twice, and is on the schedule.
func (s *shard) expect(backlog []event.Scheduled, now time.Time) {
	slices.SortFunc(backlog, func(x, y event.Scheduled) int { // each is added at the end of its line
		return comparePlaces(x.Order, x.ID, y.Order, y.ID)
	})
	for _, p := range backlog {
		q := s.queue(p.Namespace, p.Provider, now)
		l, e := q.place(p.ObjectKey, p.Order, p.ID, now)
		e.onSchedule = e.onSchedule || !p.Due
		e.rescheduled = e.onSchedule
		q.refresh(l)
	}
}

func (s *shard) queue(namespace, provider string, now time.Time) *queue {
	key := event.ProviderKey{Namespace: namespace, Provider: provider}
	q := s.queues[key]
	if q == nil {
		q = newQueue(key, s.shares.use(namespace, 1), now)
		s.queues[key] = q
	}
	return q
}

// run serves the shard until ctx ends.
func (s *shard) run(ctx context.Context, in <-chan event.Message[event.Delivery]) {
	// Sends and writes continue for the time of the drain after the ownership ends.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for _, q := range s.queues {
		s.sample(q)
	}
	dispatched, term := s.shards.add(s)
	for _, d := range dispatched {
		if d.ctx.Err() != nil { // the next router routes these events again
			s.shards.giveBack(s.number, term)
			break
		}
		s.admitAll(work, d.batch, term)
	}
	for _, q := range s.queues {
		s.pump(work, q)
	}
	for ctx.Err() == nil {
		timer.Reset(s.nextWake())
		select {
		case <-ctx.Done():
		case h := <-in:
			s.admit(work, h)
		case f := <-s.calls:
			f(work)
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
	if s.wakes.Len() == 0 {
		return time.Hour
	}
	return max(1, time.Until(s.wakes.Heap[0].wakeAt)) // none that is due already, see AGENTS.md
}

func (s *shard) wake(work context.Context) {
	now := time.Now()
	for q := s.wakes.due(now); q != nil; q = s.wakes.due(now) {
		s.pump(work, q)
	}
}

// admit takes in a delivery from the schedule.
func (s *shard) admit(work context.Context, h event.Message[event.Delivery]) {
	if q := s.takeIn(work, h, 0, time.Now()); q != nil {
		s.enforceShare(work, q)
		s.pump(work, q)
	}
}

// takeIn puts a delivery in its queue and returns the queue, or nil if the delivery is known already. With a router's term the acker is
// that of its event; with 0 the delivery is from the schedule.
func (s *shard) takeIn(work context.Context, h event.Message[event.Delivery], term int, now time.Time) *queue {
	d, direct := h.Value, term > 0
	q := s.queue(d.Namespace, d.Provider, now)
	before := q.entries
	l, e := q.place(event.ObjectKey(d.Object()), d.Order, d.ID, now)
	switch {
	case direct && q.entries == before && (e.item == nil || !e.item.direct):
		s.done(work, h.Acker) // it is on the bus, where it was put before a restart
		return nil
	case e.item != nil:
		e.item.term = max(e.item.term, term)
		s.join(e.item, h)
		return nil
	case replaysOf(&d) < e.replays:
		s.ackReplaced(work, q, l, e, h) // the delivery ended before its replay, and the acknowledgement was lost
		return nil
	}
	behind, unread := q.backlogged(l, e, rankOf(&d), now), e.onSchedule && e.owner == nil
	it := s.take(q, l, e, d, h.Acker)
	it.direct, it.term, it.taken = direct, term, now
	if unread {
		s.compare(work, it)
		return q
	}
	if l.head() == e && !q.listing && !q.replaying { // no dead letter is to be sent before it
		if dest := s.Destinations.Get(d.Namespace, d.Provider); dest != nil && s.needless(it, dest) {
			s.spare(work, it, dest) // nothing needless is to wait for a destination that is down
			return q
		}
	}
	if behind || q.closed(now) && !now.Before(s.expiry(&it.d)) {
		s.putBack(work, it, now)
	} else {
		s.enqueue(it)
	}
	return q
}

// backlogged reports whether an entry has to wait on the schedule. It does if the head of its line does, or if so many entries do that
// they need the memory, unless it precedes all of them.
func (q *queue) backlogged(l *line, e *entry, r rank, now time.Time) bool {
	if head := l.head(); head != e && head.onSchedule {
		return true
	}
	first := q.recallable.first()
	return first != nil && r >= first.next.rank && len(q.waiting) >= q.depth(now)/2
}

// newer reports whether a copy of a delivery is of a later replay than another, or was rescheduled more often in the same one.
func newer(d, other *event.Delivery) bool {
	return cmp.Or(cmp.Compare(d.Replays, other.Replays), cmp.Compare(d.Reschedules, other.Reschedules)) > 0
}

// join adds a duplicate message to a delivery in memory.
func (s *shard) join(it *item, h event.Message[event.Delivery]) {
	if len(it.twins) >= maxTwins {
		// The newest stays: it may be of a router that would begin anew with its return, and hand out all its open events once more.
		s.nak(it.twins[0].Acker)
		it.twins = slices.Delete(it.twins, 0, 1)
	}
	if !it.busy && newer(&h.Value, &it.d) {
		// The newer copy knows of more attempts. It may have another size: a sent delivery is made anew by its Alert as that is now.
		before := it.bytes()
		it.d, h.Value = h.Value, it.d
		s.hold(it.queue, 0, it.bytes()-before)
		it.acker, h.Acker = h.Acker, it.acker
		it.recalled, it.direct, it.entry.unsent = false, false, false
	}
	it.twins = append(it.twins, h)
}

func (s *shard) enqueue(it *item) {
	it.queue.enqueue(it)
	if s.longest == nil || len(it.queue.waiting) > len(s.longest.waiting) {
		s.longest = it.queue
	}
}

// spawn runs a task. The drain waits for it. Only the loop may call spawn.
func (s *shard) spawn(task func()) {
	s.spawnFor(func() func() {
		task()
		return func() {}
	})
}

// spawnFor is spawn for a task that returns a function, which the loop runs at its end.
func (s *shard) spawnFor(task func() (end func())) {
	s.tasks++
	go func() {
		end := task()
		s.post(func() {
			s.tasks--
			end()
		})
	}()
}

// post has the loop run f. Only tasks may call it.
func (s *shard) post(f func()) { s.results <- f }

func (s *shard) nak(m event.Acker) {
	if err := m.Nak(); err != nil {
		s.log.Debug("message not returned, the bus hands it out again later", "error", err)
	}
}

// drain returns the idle items to the bus, and lets the tasks end. Sends may take DrainTimeout; then they are cut off and their
// deliveries returned.
func (s *shard) drain(stop context.CancelFunc) {
	s.draining = true
	s.shards.remove(s) // before stopped is closed: a router that finds it closed looks for the shard again
	close(s.stopped)
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
}

// returnAll returns an item's messages to the bus.
func (s *shard) returnAll(it *item) {
	if it.direct {
		s.shards.giveBack(s.number, it.term)
	}
	s.nak(it.acker)
	for _, t := range it.twins {
		s.nak(t.Acker)
	}
	s.drop(it)
}
