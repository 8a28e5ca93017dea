package bus

import (
	"context"
	"fmt"

	"notifier/internal/event"
)

func subscribeRole() role {
	return role{name: roleSubscribe, stream: streamEvents}
}

// Subscribe calls serve in each term of this replica as the worker, until ctx ends. The context of serve ends with the term; serve should
// not return before.
//
// Events accepted since the first start are handed out until they are acknowledged, over any restart, in stream order. Of a record's event
// only the object, the reason, the severity, the time and the revision may be used, and of a POSTed failure the beginning of the message.
// Its maps must not be changed, since other readers share them. A message that is no event, of which Events makes a dead letter, is not
// handed out.
func (b *Bus) Subscribe(ctx context.Context, serve func(ctx context.Context, events event.Reader) error) error {
	b.serveOne(ctx, subscribeRole(), func(ctx context.Context, c *consumer) error { return serve(ctx, &reader{consumer: c}) })
	return nil
}

// reader is an event.Reader.
type reader struct{ consumer *consumer }

// Read implements event.Reader.
func (r *reader) Read(ctx context.Context, handle func(ctx context.Context, batch []*event.Record) error) error {
	return r.consumer.readEvents(ctx, event.Handler{
		Begin: func(func(string) bool) {}, CaughtUp: func(context.Context) {}, Spill: func(context.Context, uint64) {},
		Handle: func(ctx context.Context, batch []event.Message[*event.Record]) error {
			records := make([]*event.Record, len(batch))
			for i, m := range batch {
				records[i] = m.Value
			}
			if err := handle(ctx, records); err != nil {
				return err
			}
			for _, m := range batch {
				_ = m.Ack(ctx) // no error: the cursor is in this process
			}
			return nil
		},
	}, make(chan event.Message[*event.Record], recordBatch), readBatches)
}

// readBatches passes the records of a channel to the handler, as many at a time as have arrived, until ctx ends or the channel is closed.
// The records that the handler has not kept when ctx ends are returned.
func readBatches(ctx context.Context, in <-chan event.Message[*event.Record], r *eventReader) {
	for first := range in {
		batch := []event.Message[*event.Record]{first}
		for range min(len(in), recordBatch-1) {
			batch = append(batch, <-in)
		}
		if r.handle(ctx, batch) != nil {
			for _, m := range batch {
				_ = m.Nak()
			}
			return
		}
	}
}

// Skip implements event.Reader. It must not be called while Read runs.
func (r *reader) Skip(ctx context.Context, idle func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	info, err := r.consumer.bus.streams[streamEvents].Info(ctx)
	if err != nil {
		return fmt.Errorf("read stream: %w", err)
	}
	if !idle() {
		return nil
	}
	if err := r.consumer.cursor.skip(ctx, &info.State); err != nil {
		return fmt.Errorf("skip events: %w", err)
	}
	return nil
}
