package bus

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"notifier/internal/event"
)

// DeadLetters returns the dead letters of a Provider that are no older than since.
func (b *Bus) DeadLetters(ctx context.Context, namespace, provider string, since time.Time) (letters []event.Dead, _ error) {
	for next := uint64(1); next > 0; {
		letter, after, err := b.NextDead(ctx, namespace, provider, since, next)
		if err != nil {
			return nil, err
		}
		if next = after; letter != nil {
			letters = append(letters, *letter)
		}
	}
	return letters, nil
}

// T6: all letters of a Provider may be larger than the memory. Fails when NextDead passes over a letter, gives one of another Provider, of
// before since or that cannot be read, or ends before the last.
func TestDeadLettersAreReadOneAfterTheOther(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	die := func(from, to int) {
		for i := from; i < to; i++ {
			for _, provider := range []string{"slack", "other"} {
				d := testDelivery(fmt.Sprint(provider, "-", i), "team", provider)
				must(t, b.DeadLetter(ctx, &d, "client", "refused"))
			}
		}
	}
	die(0, 3)
	old, err := b.DeadLetters(ctx, "team", "slack", time.Time{})
	must(t, err)
	raw := deadHeaders(&nats.Msg{Subject: deadSubject("team", "slack"), Data: []byte("damaged"), Header: nats.Header{}}, "client", "refused")
	must(t, b.publish(ctx, streamDeadLetters, raw))
	last, err := b.streams[streamDeadLetters].GetMsg(ctx, old[2].Seq)
	must(t, err)
	die(3, 5)
	for name, tc := range map[string]struct {
		since time.Time
		from  uint64
		want  []string
		steps int
	}{
		"all":                {time.Time{}, 1, []string{"slack-0", "slack-1", "slack-2", "slack-3", "slack-4"}, 7},
		"from a sequence on": {time.Time{}, old[1].Seq, []string{"slack-1", "slack-2", "slack-3", "slack-4"}, 6},
		"since a time":       {last.Time, 1, []string{"slack-2", "slack-3", "slack-4"}, 7},
	} {
		var got []string
		steps := 0
		for next := tc.from; next > 0; steps++ {
			letter, after, err := b.NextDead(ctx, "team", "slack", tc.since, next)
			must(t, err)
			if letter != nil {
				got = append(got, letter.Delivery.ID)
				if letter.Seq < next || letter.Seq != after-1 || letter.Label != "client" {
					t.Errorf("%s: %+v at %d, go on from %d", name, letter, next, after)
				}
			}
			next = after
		}
		if !slices.Equal(got, tc.want) || steps != tc.steps {
			t.Errorf("%s: %v in %d steps", name, got, steps)
		}
	}
}

// The list of all subjects of DEADLETTERS is long. Fails when each shard that counts its dead letters has it made for itself, as at a start,
// or when one is given a list that was begun before it asked.
func TestShardsThatCountTheirDeadLettersTogetherShareAList(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	lists, err := b.nc.SubscribeSync("$JS.API.STREAM.INFO." + streamDeadLetters)
	must(t, err)
	count := func(shard int) int {
		found, err := b.DeadProviders(ctx, shard)
		if err != nil {
			t.Error(err)
		}
		return len(found)
	}
	for i := range 100 {
		d := testDelivery(fmt.Sprint(i), "team", fmt.Sprint("provider-", i))
		must(t, b.DeadLetter(ctx, &d, "client", "refused"))
		if count(b.DeliveryShard("team", d.Provider)) == 0 {
			t.Fatalf("dead letter %d is not counted", i)
		}
	}
	must(t, b.nc.Flush())
	before, _, err := lists.Pending()
	must(t, err)
	var all atomic.Int32
	var counts sync.WaitGroup
	const rounds = 32
	for i := range rounds * b.Shards() {
		counts.Go(func() { all.Add(int32(count(i % b.Shards()))) })
	}
	counts.Wait()
	must(t, b.nc.Flush())
	after, _, err := lists.Pending()
	must(t, err)
	if n := all.Load(); n != rounds*100 || before != 100 || after-before > rounds*b.Shards()/2 {
		t.Errorf("%d Providers are counted in %d rounds, with %d lists, and %d before", n, rounds, after-before, before)
	}
}
