package alerts

import (
	"log/slog"
	"strings"
	"testing"

	"notifier/internal/event"
)

// E2, E3: the bus hands out a delivery twice, as after a lost acknowledgement. Fails when an older copy hides the attempts of a newer one, when
// a copy takes the place of one that is being sent, when a message that is not kept is neither acknowledged nor returned, or when the bytes in
// memory are those of the copy that was there first.
func TestOfTheCopiesOfADeliveryTheNewestCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		copied event.Delivery
		busy   bool
		newer  bool
	}{
		"an older copy":                        {event.Delivery{ID: "d1", Reschedules: 1, Attempts: 1}, false, false},
		"the same once more":                   {event.Delivery{ID: "d1", Reschedules: 2, Attempts: 2}, false, false},
		"a newer copy":                         {event.Delivery{ID: "d1", Reschedules: 3, Attempts: 3}, false, true},
		"a newer copy of one that is sent now": {event.Delivery{ID: "d1", Reschedules: 3, Attempts: 3}, true, false},
		"a copy of a later replay":             {event.Delivery{ID: "d1", Replays: 1, Reschedules: 1}, false, true},
		"a replay that was made anew": {
			event.Delivery{ID: "d1", Replays: 1, Event: event.Event{Message: strings.Repeat("x", 1000)}}, false, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, q := &shard{Deliverer: &Deliverer{}, log: slog.New(slog.DiscardHandler)}, &queue{share: &share{}}
			first, second := &openEvents{}, &openEvents{}
			it := &item{
				d: event.Delivery{ID: "d1", Reschedules: 2, Attempts: 2}, acker: first, queue: q, entry: &entry{unsent: true},
				busy: tc.busy, recalled: true, direct: true,
			}
			was := it.d
			s.hold(q, 1, it.bytes())
			s.join(it, event.Message[event.Delivery]{Value: tc.copied, Acker: second})
			kept, twin, keptMessage, twinMessage := was, tc.copied, first, second
			if tc.newer {
				kept, twin, keptMessage, twinMessage = tc.copied, was, second, first
			}
			if it.d.Attempts != kept.Attempts || it.d.Replays != kept.Replays || it.acker != keptMessage {
				t.Errorf("%d attempts count", it.d.Attempts)
			}
			if len(it.twins) != 1 || it.twins[0].Value.Attempts != twin.Attempts || it.twins[0].Acker != twinMessage {
				t.Errorf("the other copy is %+v", it.twins)
			}
			if s.heldBytes.Load() != it.bytes() || q.share.heldBytes.Load() != it.bytes() {
				t.Errorf("%d and %d bytes are held, want %d", s.heldBytes.Load(), q.share.heldBytes.Load(), it.bytes())
			}
			if old := !tc.newer; it.recalled != old || it.direct != old || it.entry.unsent != old {
				t.Errorf("recalled %v, direct %v, unsent %v, want %v", it.recalled, it.direct, it.entry.unsent, old)
			}
		})
	}
	t.Run("very many", func(t *testing.T) {
		s := &shard{log: slog.New(slog.DiscardHandler)}
		it := &item{d: event.Delivery{ID: "d1", Reschedules: 100}, acker: &openEvents{}, entry: &entry{}}
		var copies []*openEvents
		for i := range 2 * maxTwins {
			copies = append(copies, &openEvents{})
			s.join(it, event.Message[event.Delivery]{Value: event.Delivery{ID: "d1", Reschedules: i}, Acker: copies[i]})
		}
		for i, m := range copies {
			if returned, old := m.returned.Load() == 1, i < maxTwins; returned != old {
				t.Errorf("copy %d is returned: %v, want %v", i, returned, old)
			}
		}
		if len(it.twins) != maxTwins {
			t.Errorf("%d copies are kept", len(it.twins))
		}
	})
}
