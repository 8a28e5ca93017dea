package bus

import (
	"context"
	"sync"
	"time"

	"notifier/internal/event"
)

const (
	// maxHeldRecords and maxHeldBytes bound what is in hand of EVENTS. A namespace that needs long for its own has so much room before
	// the others wait for it.
	maxHeldRecords = 8192
	maxHeldBytes   = 64 << 20
	// maxAlone is how many namespaces are handled alone at a time, aloneBatch how many records of one go in one call.
	maxAlone   = 4
	aloneBatch = 8
	// recordOverhead is what a record costs in memory beside its texts, about.
	recordOverhead = 1 << 10
)

// lanes hand records to a handler in turns. The records of a namespace, and so those of an object (invariant E4), are handled in stream
// order, one call at a time; those of different namespaces do not wait for each other. What is light goes together, many namespaces in
// one call; a record that its reader takes for heavy goes in a call of its namespace alone, beside the others, so that a tenant with very
// many Alerts waits for itself (invariant T6).
type lanes struct {
	consumer *consumer
	heavy    func(*event.Record) bool
	handle   handler

	all map[string]*lane
	// light and alone are the lanes whose turn comes, by what is first in them.
	light, alone []*lane
	count, bytes int

	shared   bool // a call of light records is under way
	calls    int  // of lanes alone
	finished chan *call
	running  sync.WaitGroup
}

// lane is what is in hand of one namespace and not in a call.
type lane struct {
	namespace string
	records   []event.Held[*event.Record]
	busy      bool
}

// call is one call of the handler.
type call struct {
	lanes []*lane
	batch []event.Held[*event.Record]
	alone bool
	err   error
}

// readLanes has the records of one consumer handled until it ends.
func readLanes(ctx context.Context, c *consumer, decode decoder[*event.Record], heavy func(*event.Record) bool, handle handler) error {
	return consume(ctx, c, decode, func(ctx context.Context, _ int, in <-chan event.Held[*event.Record]) error {
		l := &lanes{
			consumer: c, heavy: heavy, handle: handle, all: map[string]*lane{}, finished: make(chan *call, 1+maxAlone),
		}
		ctx, cancel := context.WithCancel(ctx)
		defer l.running.Wait()
		defer cancel()
		return l.run(ctx, in)
	})
}

func (l *lanes) run(ctx context.Context, in <-chan event.Held[*event.Record]) error {
	keep := time.NewTicker(keepInterval)
	defer keep.Stop()
	for {
		take := in
		if l.count >= maxHeldRecords || l.bytes >= maxHeldBytes {
			take = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case first, open := <-take:
			if !open {
				return nil
			}
			for _, h := range gatherAfter(first, in) {
				l.add(h)
			}
		case c := <-l.finished:
			if c.err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return c.err
			}
			l.end(c)
		case <-keep.C:
			l.keep()
		}
		l.begin(ctx)
	}
}

func sizeOf(r *event.Record) int {
	size := recordOverhead + len(r.Event.Message)
	for k, v := range r.Event.Metadata {
		size += len(k) + len(v)
	}
	return size
}

func (l *lanes) add(h event.Held[*event.Record]) {
	l.count++
	l.bytes += sizeOf(h.Value)
	namespace := h.Value.Event.InvolvedObject.Namespace
	of := l.all[namespace]
	if of == nil {
		of = &lane{namespace: namespace}
		l.all[namespace] = of
	}
	of.records = append(of.records, h)
	if len(of.records) == 1 && !of.busy {
		l.queue(of)
	}
}

// queue gives a lane its turn after all others.
func (l *lanes) queue(of *lane) {
	if l.heavy(of.records[0].Value) {
		l.alone = append(l.alone, of)
	} else {
		l.light = append(l.light, of)
	}
}

// begin begins the calls that may be.
func (l *lanes) begin(ctx context.Context) {
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
		for n < min(share, len(of.records)) && !l.heavy(of.records[n].Value) {
			n++
		}
		c.take(of, n)
	}
	l.shared = true
	l.start(ctx, c)
}

// take moves the first records of a lane into the call.
func (c *call) take(of *lane, n int) {
	c.batch = append(c.batch, of.records[:n]...)
	of.records, of.busy = of.records[n:], true
	c.lanes = append(c.lanes, of)
}

func (l *lanes) start(ctx context.Context, c *call) {
	l.running.Go(func() {
		c.err = handleBatch(ctx, l.consumer, c.batch, l.handle)
		l.finished <- c // it has room for all calls
	})
}

// end gives the lanes of a call their next turn.
func (l *lanes) end(c *call) {
	if c.alone {
		l.calls--
	} else {
		l.shared = false
	}
	l.count -= len(c.batch)
	for _, h := range c.batch {
		l.bytes -= sizeOf(h.Value)
	}
	for _, of := range c.lanes {
		of.busy = false
		if len(of.records) > 0 {
			l.queue(of)
		} else {
			delete(l.all, of.namespace)
		}
	}
}

// keep extends the holds of what is not in a call.
func (l *lanes) keep() {
	for _, of := range l.all {
		keepOnce(of.records)
	}
}
