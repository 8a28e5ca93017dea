package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
)

// poisoning has the numbers of crashes and deliveries after which a message counts as the cause of the crashes.
type poisoning struct {
	// cautiousAfter is after how many crashes at the same message a consumer hands out one message at a time. maxDeliveries is how often a
	// message may be handed out without an outcome before it becomes a dead letter.
	cautiousAfter, maxDeliveries int
}

// defaultPoisoning has large numbers: a process that is killed from outside again and again, before it could acknowledge any message, must
// not lose accepted ones. A handler that panics is noticed long before these numbers are reached.
var defaultPoisoning = poisoning{cautiousAfter: 50, maxDeliveries: 100}

// crashesKey is the entry of the worker's bucket that has the crashes, beside those of the lease and the cursor.
const crashesKey = "deaths"

// crashes counts how often workers died at the same place of each consumer. It is one entry of the worker's bucket: the reset of a consumer
// at the start of a term forgets how often a message was handed out.
type crashes struct {
	limits poisoning

	mu        sync.Mutex
	entry     workerEntry[map[string]*crashCount]
	consumers map[string]*crashCount
}

// crashCount is the record of one consumer.
type crashCount struct {
	// Crashes counts the workers in a row that died while the consumer's acknowledgement floor was Floor.
	Floor   uint64 `json:"floor"`
	Crashes int    `json:"deaths"`
	// Suspect is the message that was handed out alone after several crashes, Tries how often.
	Suspect uint64 `json:"suspect,omitempty"`
	Tries   int    `json:"tries,omitempty"`
}

// countCrashes begins a term: it records whether the last worker died, and the floor of each consumer. It writes at most once.
func (b *Bus) countCrashes(ctx context.Context, died bool) error {
	d := &crashes{
		limits: b.poisoning, entry: workerEntry[map[string]*crashCount]{bucket: b.buckets[bucketWorker], key: crashesKey, name: "crashes"},
	}
	b.crashes = d
	before, err := d.entry.load(ctx)
	if err != nil {
		return err
	}
	if !died {
		if len(before) == 0 {
			return nil
		}
		return d.entry.save(ctx, map[string]*crashCount{})
	}
	floors, err := b.floors(ctx)
	if err != nil {
		return err
	}
	d.consumers = make(map[string]*crashCount, len(floors))
	for name, floor := range floors {
		c := &crashCount{}
		if before[name] != nil {
			c = before[name]
		}
		if c.Floor != floor {
			c.Floor, c.Crashes = floor, 0
		}
		c.Crashes++
		d.consumers[name] = c
	}
	return d.entry.save(ctx, d.consumers)
}

// floors returns the acknowledgement floor of each consumer that the worker serves, and the floors of the cursors.
func (b *Bus) floors(ctx context.Context) (map[string]uint64, error) {
	floors := map[string]uint64{}
	for _, r := range []role{routeRole(), subscribeRole()} {
		c, err := b.loadCursor(ctx, r)
		if err != nil {
			return nil, err
		}
		floors[r.name] = c.floor
	}
	for _, stream := range []string{streamDeliveries, streamTriggers} {
		list := b.streams[stream].ListConsumers(ctx)
		for info := range list.Info() {
			if slices.Contains(info.Config.PriorityGroups, priorityGroup) {
				floors[info.Name] = info.AckFloor.Stream
			}
		}
		if err := list.Err(); err != nil {
			return nil, fmt.Errorf("list consumers of %s: %w", stream, err)
		}
	}
	return floors, nil
}

// cautious reports whether earlier workers died near the consumer's floor, so that its messages must be handed out one at a time.
func (d *crashes) cautious(consumer string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.consumers[consumer]
	return c != nil && c.Crashes >= d.limits.cautiousAfter
}

// suspect records, on disk, that a message is about to be handed out alone, and reports whether that was tried too often already.
func (d *crashes) suspect(ctx context.Context, consumer string, seq uint64) (poison bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.consumers[consumer]
	if c.Suspect != seq {
		c.Suspect, c.Tries = seq, 0
	}
	if c.Tries+d.limits.cautiousAfter >= d.limits.maxDeliveries {
		return true, nil
	}
	c.Tries++
	err = d.entry.save(ctx, d.consumers)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) && event.Owned(ctx) { // an earlier record of this term was stored, and not answered
		if _, err = d.entry.load(ctx); err == nil {
			err = d.entry.save(ctx, d.consumers)
		}
	}
	if err != nil {
		c.Tries-- // it is not handed out
	}
	return false, err
}
