package bus

import (
	"context"
	"sync"
	"time"

	"notifier/internal/event"
)

const (
	// maxBufferedBytes bounds the records of EVENTS that wait to be handled. All namespaces wait beyond it, as they do beyond maxOpen records:
	// the publishers of a namespace are refused once it has its share of either (see backlogged).
	maxBufferedBytes = 64 << 20
	// A share is a part, backlogPart, of what others leave of backlogRecords or backlogBytes, and at most an eighth of the whole. So the more
	// namespaces have a backlog the smaller each backlog is, and all of them together leave the last quarter of the whole: for the records that
	// are stored before their publisher is refused, and for the newest spillLeft, which stay open.
	backlogPart    = 4
	backlogRecords = maxOpen - spillLeft
	backlogBytes   = maxBufferedBytes / 4 * 3
	// fullPause is the time after which a namespace is looked at again whose records wait because the handler is full of it.
	fullPause = 20 * time.Millisecond
	// maxAlone is how many namespaces are handled alone at a time, aloneBatch how many records of one are in one call.
	maxAlone   = 4
	aloneBatch = 8
)

// partitions pass records to a handler in turns. The records of a namespace, and so those of an object (invariant E4), are handled in
// stream order, one call at a time. Those of different namespaces do not wait for each other. Light records of many namespaces share one
// call. A record that the handler reports as heavy is in a call of its namespace alone, beside the others. So a tenant with very many
// Alerts delays only itself (invariant T6).
type partitions struct {
	reader *eventReader

	all map[string]*partition
	// light and alone are the partitions that wait for their turn, by the weight of their first record. full are those whose namespace the
	// handler is full of. look, unless nil, fires when they are looked at again.
	light, alone, full []*partition
	look               <-chan time.Time
	// waiting and bytes count the records of all namespaces that are not handled.
	waiting, bytes int

	shared   bool // a call of light records is under way
	calls    int  // of partitions alone
	finished chan *call
	running  sync.WaitGroup
}

// partition has the records of one namespace that wait and are not in a call.
type partition struct {
	namespace string
	records   []event.Message[*event.Record]
	busy      bool
	// waiting and bytes count the records that are not handled, also those in a call. full says that they have reached their share.
	waiting, bytes int
	full           bool
}

// call is one call of the handler.
type call struct {
	partitions []*partition
	batch      []event.Message[*event.Record]
	alone      bool
	err        error
}

// readTurns passes the records of a channel to the handler, until ctx ends or the channel is closed.
func readTurns(ctx context.Context, in <-chan event.Message[*event.Record], r *eventReader) error {
	l := &partitions{reader: r, all: map[string]*partition{}, finished: make(chan *call, 1+maxAlone)}
	term := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		l.running.Wait()
		l.leave(term)
	}()
	l.running.Go(func() { r.consumer.bus.publishBacklogged(ctx) })
	return l.run(ctx, in)
}

func (l *partitions) run(ctx context.Context, in <-chan event.Message[*event.Record]) error {
	for {
		take := in
		if l.bytes >= maxBufferedBytes {
			take = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case first, open := <-take:
			if !open {
				return nil
			}
			l.add(first)
			for range len(in) { // records that have arrived meanwhile share the call
				l.add(<-in)
			}
		case c := <-l.finished:
			if c.err != nil && ctx.Err() != nil {
				l.finished <- c // to be returned by leave; its place is free
				return nil
			}
			if c.err != nil {
				return c.err
			}
			l.end(c)
		case <-l.look:
			l.lookAgain()
		}
		l.begin(ctx)
	}
}

func (l *partitions) add(h event.Message[*event.Record]) {
	namespace := h.Value.Event.InvolvedObject.Namespace
	of := l.all[namespace]
	if of == nil {
		of = &partition{namespace: namespace}
		l.all[namespace] = of
	}
	of.records = append(of.records, h)
	l.count(of, 1, h.Value.Event.Size())
	if len(of.records) == 1 && !of.busy {
		l.queue(of)
	}
}

// count adds n records to those of a partition that are not handled, and size bytes. Both may be negative.
func (l *partitions) count(of *partition, n, size int) {
	of.waiting, l.waiting = of.waiting+n, l.waiting+n
	of.bytes, l.bytes = of.bytes+size, l.bytes+size
	most := min(maxOpen/8, (backlogRecords-l.waiting)/backlogPart)
	mostBytes := min(maxBufferedBytes/8, (backlogBytes-l.bytes)/backlogPart)
	if full := of.waiting > 0 && (of.waiting >= most || of.bytes >= mostBytes); full != of.full {
		of.full = full
		l.reader.consumer.bus.backlogged.set(of.namespace, full)
	}
}

// leave ends what the partitions told the publishers. At the end of a term it returns the records that no handler has kept, so that the
// end does not wait for them.
func (l *partitions) leave(term context.Context) {
	var unhandled []event.Message[*event.Record]
	for namespace, of := range l.all {
		unhandled = append(unhandled, of.records...)
		if of.full {
			l.reader.consumer.bus.backlogged.set(namespace, false)
		}
	}
	if term.Err() == nil {
		return
	}
	close(l.finished) // no call is running
	for c := range l.finished {
		if c.err != nil {
			unhandled = append(unhandled, c.batch...)
		}
	}
	for _, m := range unhandled {
		_ = m.Nak()
	}
}

// lookAgain gives a turn to the partitions that the handler is no longer full of.
func (l *partitions) lookAgain() {
	full := l.full
	l.full, l.look = nil, nil
	for _, of := range full {
		l.count(of, 0, 0) // its share may have grown
		l.queue(of)
	}
}

// queue adds a partition behind all others.
func (l *partitions) queue(of *partition) {
	if l.reader.handler.Full(of.namespace) {
		l.full = append(l.full, of)
		if l.look == nil {
			l.look = time.After(fullPause)
		}
		return
	}
	if l.reader.handler.Heavy(of.records[0].Value) {
		l.alone = append(l.alone, of)
	} else {
		l.light = append(l.light, of)
	}
}

// begin begins as many calls as are allowed.
func (l *partitions) begin(ctx context.Context) {
	for l.calls < maxAlone && len(l.alone) > 0 {
		of := l.alone[0]
		l.alone = l.alone[1:]
		c := &call{alone: true}
		c.take(of, min(aloneBatch, len(of.records)))
		l.calls++
		l.start(ctx, c)
	}
	if l.shared || len(l.light) == 0 {
		return
	}
	c, share := &call{}, max(1, recordBatch/len(l.light))
	for len(l.light) > 0 && len(c.batch) < recordBatch {
		of := l.light[0]
		l.light = l.light[1:]
		n := 1
		for n < min(share, len(of.records)) && !l.reader.handler.Heavy(of.records[n].Value) {
			n++
		}
		c.take(of, n)
	}
	l.shared = true
	l.start(ctx, c)
}

// take moves the first records of a partition into the call.
func (c *call) take(of *partition, n int) {
	c.batch = append(c.batch, of.records[:n]...)
	of.records, of.busy = of.records[n:], true
	c.partitions = append(c.partitions, of)
}

func (l *partitions) start(ctx context.Context, c *call) {
	l.running.Go(func() {
		c.err = l.reader.handle(ctx, c.batch)
		l.finished <- c // it has capacity for all calls
	})
}

// end gives the partitions of a call their next turn.
func (l *partitions) end(c *call) {
	if c.alone {
		l.calls--
	} else {
		l.shared = false
	}
	for _, h := range c.batch {
		l.count(l.all[h.Value.Event.InvolvedObject.Namespace], -1, -h.Value.Event.Size())
	}
	for _, of := range c.partitions {
		of.busy = false
		if len(of.records) > 0 {
			l.queue(of)
		} else {
			delete(l.all, of.namespace)
		}
	}
}
