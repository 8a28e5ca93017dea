package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
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
// once. A delivery has one place on the schedule, so a park with another count replaces what is there. One that has become too
// large for the bus is a dead letter instead.
func (b *Bus) Park(ctx context.Context, d *event.Delivery, at time.Time) error {
	shard := b.shardOfDelivery(d)
	m, err := encodeDelivery(retrySubject(shard, d), d.ID+"#"+strconv.Itoa(d.Parks), d)
	if err != nil {
		return fmt.Errorf("park delivery: %w", err)
	}
	m.Header.Set(headerSchedule, "@at "+at.UTC().Format(time.RFC3339Nano))
	m.Header.Set(headerTarget, deliverSubject(shard, d))
	_, err = b.publish(ctx, streamDeliveries, m)
	switch {
	case errors.Is(err, ErrTooLarge): // its last error made it so: trying again would not end
		return b.DeadLetter(ctx, d, labelTooLarge, reasonTooLarge)
	case err != nil:
		return fmt.Errorf("park delivery: %w", err)
	}
	return nil
}

// Backlog tells what of a shard is in DELIVERIES, from one look at its subjects. The server stores a message that comes off the
// schedule before it removes it there, so that none is missed in between.
func (b *Bus) Backlog(ctx context.Context, shard int) (event.Backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*apiTimeout)
	defer cancel()
	number := strconv.Itoa(shard)
	info, err := b.streams[streamDeliveries].Info(ctx, jetstream.WithSubjectFilter(anyDelivery+number+"."+everythingElse))
	if err != nil {
		return event.Backlog{}, fmt.Errorf("list the deliveries of a shard: %w", err)
	}
	var backlog event.Backlog
	for subject, count := range info.State.Subjects {
		if !strings.HasPrefix(subject, prefixRetry) {
			backlog.Due += int(count)
			continue
		}
		p, err := parseRetrySubject(subject)
		if err != nil {
			b.log.Error("a parked delivery is not understood", "error", err)
			continue
		}
		backlog.Parked = append(backlog.Parked, p)
	}
	return backlog, nil
}
