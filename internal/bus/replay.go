package bus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
)

// DeadProviders returns the number of dead letters of each Provider of a shard that has any, which the caller does not change. Shards that ask
// at the same time share a list of all, which is begun after each of them has asked.
func (b *Bus) DeadProviders(ctx context.Context, shard int) (map[event.ProviderKey]int, error) {
	answer := b.deadLists.DoChan("", func() (any, error) {
		b.deadList.Lock() // until the list before ends, others may join this one
		defer b.deadList.Unlock()
		b.deadLists.Forget("")
		return b.listDead(context.WithoutCancel(ctx))
	})
	select {
	case got := <-answer:
		if got.Err != nil {
			return nil, fmt.Errorf("list the dead letters: %w", got.Err)
		}
		return got.Val.([]map[event.ProviderKey]int)[shard], nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// listDead returns the number of dead letters of each Provider that has any, by shard.
func (b *Bus) listDead(ctx context.Context) ([]map[event.ProviderKey]int, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*apiTimeout)
	defer cancel()
	info, err := b.streams[streamDeadLetters].Info(ctx, jetstream.WithSubjectFilter(prefixDead+everythingElse))
	if err != nil {
		return nil, err
	}
	found := make([]map[event.ProviderKey]int, b.Shards())
	for subject, n := range info.State.Subjects {
		of := event.ProviderKey{Namespace: namespaceOf(subject), Provider: providerOf(subject)}
		// A letter without a Provider is of a message that could not be read.
		if of.Namespace == "" || of.Provider == "" {
			continue
		}
		shard := b.DeliveryShard(of.Namespace, of.Provider)
		if found[shard] == nil {
			found[shard] = map[event.ProviderKey]int{}
		}
		found[shard][of] = int(min(n, math.MaxInt32))
	}
	return found, nil
}

// NextDead returns the first dead letter of a Provider at a sequence or later, and the sequence from which to go on, 0 after the last one.
// It returns no letter where that is older than since or cannot be read. The caller decides how many letters it keeps: all those of one
// Provider may be larger than the memory.
func (b *Bus) NextDead(
	ctx context.Context, namespace, provider string, since time.Time, from uint64,
) (letter *event.Dead, next uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	raw, err := b.streams[streamDeadLetters].GetMsg(ctx, from, jetstream.WithGetMsgSubject(deadSubject(namespace, provider)))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("read dead letters: %w", err)
	case raw.Time.Before(since):
		return nil, raw.Sequence + 1, nil
	}
	d, err := decodeDelivery(asMsg(raw))
	if err != nil {
		return nil, raw.Sequence + 1, nil // a message that could not be read then cannot be sent now
	}
	return &event.Dead{Delivery: d, Label: header(raw.Header, headerLabel), Seq: raw.Sequence}, raw.Sequence + 1, nil
}

// Replay publishes a delivery that was a dead letter anew, and removes the letter. The caller has incremented its Replays and its
// Reschedules. A Seq of 0 is for a delivery that is no dead letter: it was sent. A replayed delivery is handed out like one whose time on
// the schedule has come, so a delivery that was sent after all is found in the history. After a crash in between the letter is still there,
// and another replay finds the delivery sent or waiting.
func (b *Bus) Replay(ctx context.Context, letter event.Dead) error {
	d := &letter.Delivery
	id := d.Run() + "#due" + strconv.Itoa(d.Reschedules)
	m, err := encodeDelivery(dueSubject(b.DeliveryShard(d.Namespace, d.Provider), d), id, d)
	if err != nil {
		return fmt.Errorf("replay delivery: %w", err)
	}
	if err := b.publishUnlessThere(ctx, streamDeliveries, m); err != nil {
		return fmt.Errorf("replay delivery: %w", err)
	}
	if letter.Seq == 0 {
		return nil
	}
	if err := b.remove(ctx, streamDeadLetters, d.Namespace, letter.Seq); err != nil {
		return fmt.Errorf("replay delivery: %w", err)
	}
	b.quotas[streamDeadLetters].removed(deadSubject(d.Namespace, d.Provider), letter.Seq)
	return nil
}
