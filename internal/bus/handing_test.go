package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// FuzzE2E4EveryEventIsHandedOutInOrder is E2 and E4 for both readers of EVENTS: terms end at any moment, calls of the handler fail, events are
// done in any order or returned, the cursor's writes fail, and messages are removed from the stream. Fails when an event is skipped, is
// recorded as done before it is done and on disk, comes again without a recheck, or is handled beside or after a younger one of its namespace
// in a term.
func FuzzE2E4EveryEventIsHandedOutInOrder(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { playHanding(t, seed) })
	})
}

// handing checks what is handed out.
type handing struct {
	*rough
	t    *testing.T
	role role

	mu    sync.Mutex
	acked map[uint64]bool // done, by any term
	ever  map[uint64]bool // handed out, in any term
	saved map[uint64]bool // done by the record in the bucket
	// of the present term
	term   int
	before map[uint64]bool // acked as it began
	passed map[uint64]bool // saved as it began
	handed map[uint64]bool
	last   map[string]uint64 // handled
	retry  map[string]uint64 // the first of the batch that failed
	busy   map[string]bool
}

// begin begins a term.
func (h *handing) begin(behind func(string) bool) {
	h.rough.mu.Lock()
	defer h.rough.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.term++
	if len(h.busy) > 0 {
		h.t.Errorf("term %d begins while a call is under way", h.term)
	}
	h.before, h.handed = maps.Clone(h.acked), map[uint64]bool{}
	h.last, h.retry = map[string]uint64{}, map[string]uint64{}
}

// write checks a record of the cursor.
func (h *handing) write(key string, value []byte) {
	if key != cursorKeys[h.role.name] {
		return
	}
	var r cursorRecord
	must(h.t, json.Unmarshal(value, &r))
	h.mu.Lock()
	defer h.mu.Unlock()
	done := map[uint64]bool{}
	for seq := uint64(1); seq <= r.Floor; seq++ {
		done[seq] = true
	}
	for seq := range r.sequences() {
		done[seq] = true
	}
	for seq := range done {
		if seq > h.synced {
			h.t.Errorf("%d is done and not on disk", seq)
		}
		if !h.acked[seq] && h.log[seq-1] != nil {
			h.t.Errorf("%d is recorded as done and is not", seq)
		}
	}
	for seq := range h.saved {
		if !done[seq] {
			h.t.Errorf("%d is no longer recorded as done", seq)
		}
	}
	h.saved = done
}

func (h *handing) ack(m event.Message[*event.Record]) {
	h.mu.Lock()
	h.acked[m.Seq] = true
	h.mu.Unlock()
	must(h.t, m.Ack(context.Background()))
}

// enter checks a batch.
func (h *handing) enter(batch []event.Message[*event.Record]) {
	h.rough.mu.Lock()
	defer h.rough.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	in := map[string]uint64{} // the last sequence of each namespace
	for _, m := range batch {
		ns := m.Value.Event.InvolvedObject.Namespace
		if h.busy[ns] {
			h.t.Errorf("%d goes beside another of its namespace", m.Seq)
		}
		if in[ns] == 0 && h.retry[ns] > 0 && h.retry[ns] != m.Seq {
			h.t.Errorf("%d is handled after %d failed", m.Seq, h.retry[ns])
		}
		if in[ns] >= m.Seq {
			h.t.Errorf("%d is after %d in a batch", m.Seq, in[ns])
		}
		in[ns] = m.Seq
		delete(h.retry, ns)
		h.look(ns, m)
	}
	for ns := range in {
		h.busy[ns] = true
	}
}

// look checks an event that is handed out. The caller holds both locks.
func (h *handing) look(ns string, m event.Message[*event.Record]) {
	r := m.Value
	stored := h.log[m.Seq-1]
	if r.Seq != m.Seq || stored != nil && stored.id() != r.ID {
		h.t.Errorf("%d is %s of %d", m.Seq, r.ID, r.Seq)
	}
	if h.ever[m.Seq] && !r.Recheck {
		h.t.Errorf("%d comes again without a recheck", m.Seq)
	}
	if h.passed[m.Seq] {
		h.t.Errorf("%d is recorded as done and comes again", m.Seq)
	}
	if h.last[ns] >= m.Seq {
		h.t.Errorf("%d is handled after %d", m.Seq, h.last[ns])
	}
	for seq := h.last[ns] + 1; seq < m.Seq; seq++ {
		earlier := h.log[seq-1]
		if earlier != nil && namespaceOf(earlier.subject) == ns && !h.handed[seq] && !h.before[seq] {
			h.t.Errorf("%d is handed out and not %d before it, term %d", m.Seq, seq, h.term)
		}
	}
	h.ever[m.Seq], h.handed[m.Seq] = true, true
}

func (h *handing) leave(batch []event.Message[*event.Record], err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range batch {
		ns := m.Value.Event.InvolvedObject.Namespace
		delete(h.busy, ns)
		if err == nil {
			h.last[ns] = m.Seq
		} else if h.retry[ns] == 0 {
			h.retry[ns] = m.Seq
		}
	}
}

var errHandling = errors.New("not handled")

func (h *handing) handle(ctx context.Context, batch []event.Message[*event.Record]) (err error) {
	h.enter(batch)
	defer func() { h.leave(batch, err) }()
	pass(h.pause())
	if h.chance(10) {
		return errHandling
	}
	if ctx.Err() != nil && h.chance(2) {
		return ctx.Err()
	}
	for _, m := range batch {
		switch {
		case h.chance(60):
			time.AfterFunc(h.pause(), func() { _ = m.Nak() })
		case h.chance(10):
			time.AfterFunc(time.Duration(h.intN(int(20*time.Second))), func() { h.ack(m) })
		case h.chance(2):
			time.AfterFunc(h.pause(), func() { h.ack(m) })
		default:
			h.ack(m)
		}
	}
	return nil
}

func (h *handing) handler() event.Handler {
	return event.Handler{
		Heavy: func(r *event.Record) bool { return r.ID[0] == 'h' },
		Full:  func(namespace string) bool { return h.chance(20) },
		Begin: h.begin, CaughtUp: func(context.Context) {}, Spill: func(context.Context, uint64) {}, Handle: h.handle,
	}
}

func playHanding(t *testing.T, seed uint64) {
	s := newRough(t, seed)
	b := s.bus()
	h := &handing{
		rough: s, t: t, role: []role{routeRole(), subscribeRole()}[seed/2%2],
		acked: map[uint64]bool{}, ever: map[uint64]bool{}, saved: map[uint64]bool{}, busy: map[string]bool{},
	}
	s.wrote = h.write
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.refresh(ctx, b) })
	if seed%3 == 0 {
		running.Go(func() { s.remove(ctx) })
	}
	running.Go(func() {
		for ctx.Err() == nil {
			h.serve(ctx, b)
		}
	})
	var publishers sync.WaitGroup
	for p := range 6 {
		publishers.Go(func() {
			for i := range 30 {
				id := fmt.Sprintf("light-%d-%02d", p, i)
				if s.chance(5) {
					id = "heavy" + id
				}
				for range 5 { // some are never accepted
					if _, err := b.PublishEvent(t.Context(), testRecord(id, fmt.Sprint("team-", p/2), fmt.Sprint("app-", p))); err == nil {
						break
					}
				}
				pass(s.pause())
			}
		})
	}
	publishers.Wait()
	s.calmDown()
	pass(2*lateAnswer + 30*time.Second)
	h.check()
	stop()
	running.Wait()
	b.events.work.Wait()
}

// check checks that all is done.
func (h *handing) check() {
	h.rough.mu.Lock()
	defer h.rough.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, m := range h.log {
		if m != nil && !h.acked[m.seq] {
			h.t.Errorf("%d of %d is not done", i+1, len(h.log))
		}
	}
	last := len(h.log)
	for last > 0 && h.log[last-1] == nil { // those were removed before a reader of the last term saw them
		last--
	}
	if len(h.saved) < last {
		h.t.Errorf("%d of %d are recorded as done", len(h.saved), last)
	}
}

// serve is a term.
func (h *handing) serve(ctx context.Context, b *Bus) {
	term, end := context.WithCancel(ctx)
	defer end()
	if !h.isCalm() {
		time.AfterFunc(time.Duration(h.intN([]int{int(time.Second), int(30 * time.Second)}[h.intN(2)])), end)
	}
	b.serveTerm(term, h.role, func(ctx context.Context, c *consumer) error {
		h.rough.mu.Lock()
		h.mu.Lock()
		h.passed = map[uint64]bool{}
		for seq := uint64(1); seq <= c.cursor.floor; seq++ {
			h.passed[seq] = true
		}
		for seq := range c.cursor.done {
			h.passed[seq] = true
		}
		h.mu.Unlock()
		h.rough.mu.Unlock()
		if h.role.name == roleRoute {
			return c.route(ctx, h.handler())
		}
		return c.readEvents(ctx, h.handler(), make(chan event.Message[*event.Record], recordBatch), readBatches)
	})
}

func (h *handing) isCalm() bool {
	h.rough.mu.Lock()
	defer h.rough.mu.Unlock()
	return h.calm
}
