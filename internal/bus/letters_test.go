package bus

import (
	"context"
	"fmt"
	"slices"
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
