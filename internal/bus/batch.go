package bus

import (
	"context"
	"time"

	"notifier/internal/event"
	"notifier/internal/fair"
)

const (
	// recordBatch is how many records are handled together; they are acknowledged together as well.
	recordBatch    = 128
	gatherTime     = 200 * time.Microsecond
	minHandlePause = 100 * time.Millisecond
	maxHandlePause = 5 * time.Second
)

// Read implements event.Reader: it passes the records to handle, batch by batch, until the consumer ends. After an error handle is called
// with the same ones again.
func (r *reader) Read(ctx context.Context, handle func(ctx context.Context, batch []*event.Record) error) error {
	serve := func(ctx context.Context, _ int, in <-chan event.Message[*event.Record]) error {
		for {
			batch := gather(ctx, in)
			if len(batch) == 0 {
				return nil
			}
			if err := r.consumer.handleBatch(ctx, batch, handle); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
		}
	}
	return consume(ctx, r.consumer, stage[*event.Record]{decode: decodeHeaders, serve: serve})
}

// gather waits for a record and returns it with the records that follow within gatherTime, at most recordBatch in all. It returns none when
// ctx or in ends.
func gather(ctx context.Context, in <-chan event.Message[*event.Record]) (batch []event.Message[*event.Record]) {
	select {
	case <-ctx.Done():
		return nil
	case first, open := <-in:
		if !open {
			return nil
		}
		batch = append(batch, first)
	}
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	for len(batch) < recordBatch {
		select {
		case next, open := <-in:
			if !open {
				return batch
			}
			batch = append(batch, next)
		case <-timer.C:
			return batch
		}
	}
	return batch
}

// handleBatch calls handle for one batch until it succeeds. It keeps the batch meanwhile: returned to the stream, its records would be
// handed out behind younger ones of the same objects (invariant E4).
func (c *consumer) handleBatch(
	ctx context.Context, batch []event.Message[*event.Record], handle func(ctx context.Context, batch []*event.Record) error,
) error {
	records := make([]*event.Record, len(batch))
	for i, h := range batch {
		records[i] = h.Value
	}
	kept, stopKeeping := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); keepInProgress(kept, batch) }()
	defer func() { stopKeeping(); <-done }()
	err := c.untilHandled(ctx, len(records), func() error { return handle(ctx, records) }, func(i int) { records[i].Recheck = true })
	if err != nil {
		return err
	}
	// Handled records are acknowledged even if ctx has ended in the meantime, or the next worker would handle them again.
	ctx = context.WithoutCancel(ctx)
	last := len(batch) - 1
	for _, h := range batch[:last] {
		if err := h.Acker.(*acker).ackSoon(); err != nil {
			return err
		}
	}
	return batch[last].Ack(ctx)
}

// untilHandled calls handle until it succeeds or ctx ends, pausing longer each time. After each failure it calls recheck for each of n
// records.
func (c *consumer) untilHandled(ctx context.Context, n int, handle func() error, recheck func(i int)) error {
	for pause := minHandlePause; ; pause = min(2*pause, maxHandlePause) {
		err := handle()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.bus.log.Warn("events not handled, they will be tried again", "role", c.role.name, "count", n, "error", err)
		for i := range n {
			recheck(i)
		}
		if err := fair.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func keepInProgress(ctx context.Context, batch []event.Message[*event.Record]) {
	for fair.Sleep(ctx, keepInterval) == nil {
		for _, h := range batch {
			_ = h.InProgress() // acknowledged or not connected: either way there is nothing else to do
		}
	}
}
