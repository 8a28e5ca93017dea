package bus

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
)

const (
	headerSchedule = "Nats-Schedule"
	headerTarget   = "Nats-Schedule-Target"
)

// Park puts d back on the schedule, to come off it at the given time, and returns when that is on disk. The caller then settles
// the message it holds. Whatever d's fields say then, attempts and last error among them, it will say when it comes back.
//
// Each park has an ID of its own, d.ID and d.Parks, which the caller counts up: with the delivery's own ID the stream would take
// it for a duplicate of the delivery and drop it, with a positive answer. So the same delivery with the same Parks is parked
// once. A delivery has one place on the schedule, so a park with another count replaces what is there.
func (b *Bus) Park(ctx context.Context, d *event.Delivery, at time.Time) error {
	shard := b.shardOfDelivery(d)
	m, err := encodeDelivery(retrySubject(shard, d), d.ID+"#"+strconv.Itoa(d.Parks), d)
	if err != nil {
		return fmt.Errorf("park delivery: %w", err)
	}
	m.Header.Set(headerSchedule, "@at "+at.UTC().Format(time.RFC3339Nano))
	m.Header.Set(headerTarget, deliverSubject(shard, d))
	if _, err := b.publish(ctx, streamDeliveries, m); err != nil {
		return fmt.Errorf("park delivery: %w", err)
	}
	return nil
}

// Parked lists what of a shard is on the schedule, from the subjects alone. What has come off it is not listed, settled or not.
func (b *Bus) Parked(ctx context.Context, shard int) ([]event.Parked, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*apiTimeout)
	defer cancel()
	filter := prefixRetry + strconv.Itoa(shard) + "." + everythingElse
	info, err := b.streams[streamDeliveries].Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return nil, fmt.Errorf("list parked deliveries: %w", err)
	}
	parked := make([]event.Parked, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		p, err := parseRetrySubject(subject)
		if err != nil {
			b.log.Error("a parked delivery is not understood", "error", err)
			continue
		}
		parked = append(parked, p)
	}
	return parked, nil
}
