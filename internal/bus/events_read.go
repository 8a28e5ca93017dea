package bus

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/internal/event"
	"notifier/internal/fair"
)

const (
	// recordBatch is how many records are handled together.
	recordBatch    = 128
	minHandlePause = 100 * time.Millisecond
	maxHandlePause = 5 * time.Second
)

func routeRole() role {
	return role{name: roleRoute, stream: streamEvents}
}

// Events calls h with the records of EVENTS, those of each namespace in stream order, while this replica is the worker, until ctx ends.
// Records in hand when the term ends are handed out again to the next worker, for a recheck. A message that is no event becomes a dead
// letter.
//
// Calls for different namespaces may be made at the same time: namespaces wait neither for another's heavy record nor for the records of
// that namespace that arrive meanwhile.
func (b *Bus) Events(ctx context.Context, h event.Handler) error {
	b.serveOne(ctx, routeRole(), func(ctx context.Context, c *consumer) error { return c.route(ctx, h) })
	return nil
}

// route is Events from one takeover to the next. No record waits in the channel, where its bytes would not be counted.
func (c *consumer) route(ctx context.Context, h event.Handler) error {
	return c.readEvents(ctx, h, make(chan event.Message[*event.Record]), readTurns)
}

// readEvents reads from one takeover to the next. The records go through the channel in, and pass passes them to h, until ctx ends or in is
// closed.
func (c *consumer) readEvents(
	ctx context.Context, h event.Handler, in chan event.Message[*event.Record],
	pass func(ctx context.Context, in <-chan event.Message[*event.Record], r *eventReader),
) error {
	defer c.gauge.waiting(0) // a reader may pause
	r := &eventReader{consumer: c, handler: h, out: in, behind: behind{last: c.last, unhandled: map[string]int{}}}
	h.Begin(r.behind.of)
	term := ctx
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(in)
		return r.run(ctx)
	})
	g.Go(func() error {
		pass(ctx, in, r)
		for m := range in { // that the end of the term does not wait for what is left
			_ = m.Nak()
		}
		return nil
	})
	g.Go(func() error { return c.cursor.keep(ctx, term, c.gauge, c.bus.log) })
	return g.Wait()
}

// eventReader hands out the events of a term.
type eventReader struct {
	consumer *consumer
	handler  event.Handler
	out      chan<- event.Message[*event.Record]
	// spilled is the sequence up to which Spill was last called.
	spilled uint64
	behind  behind
}

func (r *eventReader) run(ctx context.Context) error {
	routes := r.consumer.role.name == roleRoute
	f := feed{bus: r.consumer.bus, next: r.consumer.cursor.next, early: routes, headers: !routes, end: func() {
		r.behind.allHandedOut()
		r.handler.CaughtUp(ctx)
	}}
	return f.run(ctx, func(l logEntry) error { return r.hand(ctx, l) })
}

// hand waits until one more event may be open, and hands it out unless an earlier term has done it.
func (r *eventReader) hand(ctx context.Context, l logEntry) error {
	c := r.consumer
	if l.record == nil {
		c.cursor.see(l.seq, l.stored)
	}
	if c.cursor.pass(l.seq) {
		return nil
	}
	if err := r.awaitCapacity(ctx); err != nil {
		return err
	}
	if !event.Owned(ctx) {
		return errFenced
	}
	poison, err := r.alone(ctx, l.seq)
	if err != nil {
		return err
	}
	if poison {
		return r.giveUp(ctx, l, "poison", "the process died each time this message was handled")
	}
	record, err := r.decode(l)
	if err != nil {
		return r.giveUp(ctx, l, "undecodable", err.Error())
	}
	if record == nil {
		return c.cursor.hand(l.seq).Ack(ctx)
	}
	if l.seq <= c.last {
		again := *record // others read the record as well
		again.Recheck = true
		record = &again
		r.behind.handedOut(record.Event.InvolvedObject.Namespace)
	}
	m := event.Message[*event.Record]{Value: record, Seq: l.seq, Acker: c.cursor.hand(l.seq)}
	select {
	case r.out <- m:
		return nil
	case <-ctx.Done():
		_ = m.Nak()
		return ctx.Err()
	}
}

// decode returns the record of a message. The subscriber's has what the headers have, and is nil if the message is no event.
func (r *eventReader) decode(l logEntry) (record *event.Record, err error) {
	if r.consumer.role.name == roleSubscribe {
		return l.brief(), nil
	}
	if l.record != nil {
		return l.record, nil
	}
	if record, err = decodeRecord(l.msg); err == nil {
		record.Seq = l.seq
	}
	return record, err
}

// awaitCapacity waits until fewer than maxOpen events are open, and fewer than maxWindow were handed out from the oldest of them on. Long
// before either bound it asks the handler to finish the oldest.
func (r *eventReader) awaitCapacity(ctx context.Context) error {
	for {
		floor, window, open := r.consumer.cursor.counts()
		if window < spillAt {
			return nil
		}
		if upTo := floor + uint64(window) - spillLeft; upTo >= r.spilled+maxOpen/8 { // once for every maxOpen/8 events
			r.spilled = upTo
			r.handler.Spill(ctx, upTo)
		}
		if open < maxOpen && window < maxWindow {
			return nil
		}
		select {
		case <-r.consumer.cursor.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// alone delays an event near which earlier workers may have died until no other is open, and records it first. It reports whether that
// happened too often.
func (r *eventReader) alone(ctx context.Context, seq uint64) (poison bool, err error) {
	c := r.consumer
	if !c.cautious(seq) {
		return false, nil
	}
	for {
		if _, _, open := c.cursor.counts(); open == 0 {
			if err := c.cursor.save(ctx); err != nil { // finished events are no longer suspects
				return false, err
			}
			return c.crashes.suspect(ctx, c.role.name, seq)
		}
		select {
		case <-c.cursor.changed:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// giveUp makes a dead letter of a message that cannot be handled. While that is not stored the term begins anew.
func (r *eventReader) giveUp(ctx context.Context, l logEntry, label, reason string) error {
	if err := r.consumer.bus.deadLetterRaw(ctx, streamEvents, l.msg, label, reason); err != nil {
		return err
	}
	return r.consumer.cursor.hand(l.seq).Ack(ctx)
}

// handle calls the handler for one batch until it succeeds or ctx ends, pausing longer each time. It keeps the batch meanwhile, so that no
// younger record of the same objects is handled before it (invariant E4). It returns an error only if ctx has ended.
func (r *eventReader) handle(ctx context.Context, batch []event.Message[*event.Record]) error {
	for pause := minHandlePause; ; pause = min(2*pause, maxHandlePause) {
		err := r.handler.Handle(ctx, batch)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.consumer.bus.log.Warn("events not handled, they will be tried again", "role", r.consumer.role.name, "count", len(batch), "error", err)
		for i := range batch {
			again := *batch[i].Value // others read the record as well
			again.Recheck = true
			batch[i].Value = &again
		}
		if err := fair.Sleep(ctx, pause); err != nil {
			return err
		}
	}
	if r.behind.handled(batch) {
		r.handler.CaughtUp(ctx)
	}
	return nil
}
