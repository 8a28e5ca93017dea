package bus

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"notifier/internal/event"
)

// largest returns a text with which the message that encode makes of it is as large as the server takes.
func largest(t *testing.T, b *Bus, encode func(text string) *nats.Msg) string {
	t.Helper()
	text := strings.Repeat("m", int(b.nc.MaxPayload())/2)
	m := encode(text)
	text += strings.Repeat("m", int(b.nc.MaxPayload())-(m.Size()-len(m.Subject)))
	return text
}

// T6, E2: a message of the greatest size that is accepted is read as well. Fails when a reader asks for fewer bytes than the server counts
// of it, its subject and its reply among them: it asks in vain for ever, and no event, or no waiting delivery of the shard, is handed out.
func TestT6TheLargestMessageThatIsAcceptedHoldsUpNoReader(t *testing.T) {
	t.Run("an event", func(t *testing.T) {
		dir := t.TempDir()
		b := open(t, dir, nil)
		r := testRecord("large", "team", "app")
		r.Event.Message = largest(t, b, func(text string) *nats.Msg {
			of := *r
			of.Event.Message = text
			m, _, err := encodeRecord(&of)
			must(t, err)
			return m
		})
		publishRecords(t, b, testRecord("small", "team", "app"), r)
		publishRecords(t, b, testRecord("next", "other", "app"))
		closeBus(t, b)
		b = open(t, dir, nil) // so that they are read from the stream
		got := make(chan *event.Record)
		start(t, routeTo(b, got))
		for _, id := range []string{"small", "large", "next"} {
			if r := receive(t, got); r.ID != id {
				t.Errorf("got %s, want %s", r.ID, id)
			}
		}
	})
	t.Run("a delivery", func(t *testing.T) {
		b := open(t, t.TempDir(), func(o *Options) { o.Shards = 1 })
		ctx := testContext(t)
		d := testDelivery("large", "team", "slack")
		at := time.Now()
		d.Event.Message = largest(t, b, func(text string) *nats.Msg {
			of := d
			of.Event.Message = text
			m, err := encodeDelivery(dueSubject(0, &of), of.Run()+"#due0", &of)
			must(t, err)
			return m
		})
		must(t, b.Replay(ctx, event.Dead{Delivery: d}))
		next := testDelivery("next", "other", "slack")
		must(t, b.Reschedule(ctx, &next, at))
		got := make(chan event.Message[event.Delivery])
		start(t, deliverTo(b, got))
		seen := map[string]bool{}
		for range 2 {
			seen[receive(t, got).Value.ID] = true
		}
		if !seen["large"] || !seen["next"] {
			t.Errorf("got %v", seen)
		}
	})
}

// T6: large events of a namespace wait, as after a restart. Fails when more of them are in memory than maxBufferedBytes and the next one, as
// when the channel of the records has a buffer.
func TestT6FewLargeEventsThatWaitAreInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 4 << 20
		s := newRough(t, 0)
		s.calmDown()
		r := testRecord("large", "team", "app")
		r.Event.Message = strings.Repeat("m", size)
		m, _, err := encodeRecord(r)
		must(t, err)
		s.mu.Lock()
		for seq := range uint64(24) {
			s.log = append(s.log, &roughMsg{subject: m.Subject, header: m.Header, data: m.Data, seq: seq + 1})
		}
		s.mu.Unlock()
		h := handlerOf(light, nil)
		h.Full = func(string) bool { return true }
		open := 0
		ctx, stop := context.WithCancel(t.Context())
		s.bus().serveTerm(ctx, routeRole(), func(ctx context.Context, c *consumer) error {
			time.AfterFunc(5*time.Second, func() {
				_, _, open = c.cursor.counts()
				stop()
			})
			return c.route(ctx, h)
		})
		if most := maxBufferedBytes/size + 1; open > most {
			t.Errorf("%d events of %d MiB are in memory, want %d at most", open, size>>20, most)
		}
	})
}
