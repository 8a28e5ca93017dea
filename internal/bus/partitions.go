package bus

import (
	"context"
	"sync"
	"time"

	"notifier/internal/event"
	"notifier/internal/fair"
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
	// maxAlone is how many records are handled alone at a time.
	maxAlone = 4
)

// partitions pass records to a handler in turns. The records of a namespace, and so those of an object (invariant E4), are handled in
// stream order, one call at a time. Those of different namespaces do not wait for each other. Light records of many namespaces share one
// call. A record that the handler reports as heavy is in a call of its namespace alone, beside the others. So a tenant with very many
// Alerts delays only itself (invariant T6).
type partitions struct {
	reader *eventReader

	// queue has the records that wait and are in no call. A namespace with a call is held in it, and so are those in full and in heavy.
	queue *fair.Queue[event.Message[*event.Record]]
	all   map[string]*partition // by namespace
	// full are the namespaces that the handler is full of. look, unless nil, fires when they are looked at again.
	full []string
	look <-chan time.Time
	// heavy are the namespaces whose next record is heavy and waits until fewer than maxAlone are handled alone.
	heavy []string
	// light are the namespaces of the call that begin makes.
	light map[string]bool
	// waiting and bytes count the records of all namespaces that are not handled.
	waiting, bytes int

	shared   bool // a call of light records is under way
	alone    int  // calls of heavy records
	finished chan *call
	running  sync.WaitGroup
}

// partition counts the records of one namespace that are not handled, also those in a call. full says that they have reached their share.
type partition struct {
	waiting, bytes int
	full           bool
}

// call is one call of the handler.
type call struct {
	batch []event.Message[*event.Record]
	alone bool
	err   error
}

func namespaceOfRecord(m event.Message[*event.Record]) string {
	return m.Value.Event.InvolvedObject.Namespace
}

func newPartitions(r *eventReader) *partitions {
	return &partitions{
		reader: r, queue: fair.NewQueue(namespaceOfRecord), all: map[string]*partition{}, light: map[string]bool{},
		finished: make(chan *call, 1+maxAlone),
	}
}

// readTurns passes the records of a channel to the handler, until ctx ends or the channel is closed.
func readTurns(ctx context.Context, in <-chan event.Message[*event.Record], r *eventReader) {
	l := newPartitions(r)
	term := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		l.running.Wait()
		l.leave(term)
	}()
	l.running.Go(func() { r.consumer.bus.publishBacklogged(ctx) })
	l.run(ctx, in)
}

func (l *partitions) run(ctx context.Context, in <-chan event.Message[*event.Record]) {
	for {
		take := in
		if l.bytes >= maxBufferedBytes {
			take = nil
		}
		select {
		case <-ctx.Done():
			return
		case m, open := <-take:
			if !open {
				return
			}
			l.add(m)
		case c := <-l.finished:
			if c.err != nil { // ctx has ended
				l.finished <- c // to be returned by leave; its place is free
				return
			}
			l.end(c)
		case <-l.look:
			l.lookAgain()
		}
		l.begin(ctx)
	}
}

func (l *partitions) add(m event.Message[*event.Record]) {
	l.queue.Push(m)
	l.count(namespaceOfRecord(m), 1, m.Value.Event.Size())
}

// count adds n records to those of a namespace that are not handled, and size bytes. Both may be negative.
func (l *partitions) count(namespace string, n, size int) {
	of := l.all[namespace]
	if of == nil {
		of = &partition{}
		l.all[namespace] = of
	}
	of.waiting, l.waiting = of.waiting+n, l.waiting+n
	of.bytes, l.bytes = of.bytes+size, l.bytes+size
	most := min(maxOpen/8, (backlogRecords-l.waiting)/backlogPart)
	mostBytes := min(maxBufferedBytes/8, (backlogBytes-l.bytes)/backlogPart)
	if full := of.waiting > 0 && (of.waiting >= most || of.bytes >= mostBytes); full != of.full {
		of.full = full
		l.reader.consumer.bus.backlogged.set(namespace, full)
	}
	if of.waiting == 0 {
		delete(l.all, namespace)
	}
}

// leave ends what the partitions told the publishers. At the end of a term it returns the records that no handler has kept, so that the
// end does not wait for them.
func (l *partitions) leave(term context.Context) {
	for namespace, of := range l.all {
		l.queue.Release(namespace)
		if of.full {
			l.reader.consumer.bus.backlogged.set(namespace, false)
		}
	}
	if term.Err() == nil {
		return
	}
	for l.queue.Len() > 0 {
		_ = l.queue.Pop().Nak()
	}
	close(l.finished) // no call is running
	for c := range l.finished {
		for _, m := range c.batch {
			if c.err != nil {
				_ = m.Nak()
			}
		}
	}
}

// lookAgain gives a turn to the namespaces that the handler may no longer be full of.
func (l *partitions) lookAgain() {
	for _, namespace := range l.full {
		l.count(namespace, 0, 0) // its share may have grown
	}
	l.full, l.look = l.release(l.full), nil
}

// release ends the hold of namespaces, and returns none.
func (l *partitions) release(namespaces []string) []string {
	for _, namespace := range namespaces {
		l.queue.Release(namespace)
	}
	return namespaces[:0]
}

// begin begins as many calls as are allowed. Heavy records wait, as light ones do, for the end of a call of light ones, which is soon.
func (l *partitions) begin(ctx context.Context) {
	if _, some := l.queue.Peek(); l.shared || !some {
		return
	}
	c, light := &call{}, l.light
	for len(c.batch) < recordBatch {
		m, ok := l.queue.Peek()
		if !ok {
			break
		}
		namespace := namespaceOfRecord(m)
		heavy := l.reader.handler.Heavy(m.Value)
		switch {
		case !light[namespace] && l.reader.handler.Full(namespace):
			l.full = append(l.full, namespace)
			if l.look == nil {
				l.look = time.After(fullPause)
			}
		case heavy && light[namespace]: // it goes when this call has ended
		case heavy && l.alone == maxAlone:
			l.heavy = append(l.heavy, namespace)
		case heavy:
			l.alone++
			l.start(ctx, &call{batch: []event.Message[*event.Record]{l.queue.Pop()}, alone: true})
		default:
			c.batch = append(c.batch, l.queue.Pop())
			light[namespace] = true
			continue
		}
		l.queue.Hold(namespace)
	}
	for namespace := range light {
		l.queue.Hold(namespace)
	}
	clear(light)
	if l.shared = len(c.batch) > 0; l.shared {
		l.start(ctx, c)
	}
}

func (l *partitions) start(ctx context.Context, c *call) {
	l.running.Go(func() {
		c.err = l.reader.handle(ctx, c.batch)
		l.finished <- c // it has capacity for all calls
	})
}

// end gives the namespaces of a call their next turn.
func (l *partitions) end(c *call) {
	if c.alone {
		l.alone--
		l.heavy = l.release(l.heavy)
	} else {
		l.shared = false
	}
	for _, m := range c.batch {
		namespace := namespaceOfRecord(m)
		l.count(namespace, -1, -m.Value.Event.Size())
		l.queue.Release(namespace)
	}
}
