package alerts

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"notifier/internal/event"
	"notifier/internal/fair"
)

// lineCount counts the lines of a log by namespace, and the lines that were left out.
type lineCount struct {
	slog.Handler
	mu   sync.Mutex
	of   map[string]int
	left int64
}

func (c *lineCount) Enabled(context.Context, slog.Level) bool { return true }

func (c *lineCount) WithAttrs([]slog.Attr) slog.Handler { return c }

func (c *lineCount) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "namespace":
			c.of[a.Value.String()]++
		case "lines_left_out":
			c.left += a.Value.Int64()
		}
		return true
	})
	return nil
}

// T6: each event is for a thousand Alerts, whose Provider has a type that does not exist. Fails when lost, or account, writes a line for each
// delivery; when the lines of one namespace leave no others; or when the omitted lines are not counted.
func TestT6TheLinesAboutANamespacesDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	const alerts, events = 1000, 100
	for name, give := range map[string]func(d *Deliverer, of *event.Delivery){
		"given up": func(d *Deliverer, of *event.Delivery) { d.Lost(of, nil, labelUnsupported, "type odd is not supported") },
		"sent": func(d *Deliverer, of *event.Delivery) {
			s := &shard{Deliverer: d, log: d.Log}
			s.account(context.Background(), of, nil, verdict{action: record, outcome: outcomeSent})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				d := w.deliverer(w.bus.session())
				lines := &lineCount{of: map[string]int{}}
				d.Log = slog.New(lines)
				for range events {
					for a := range alerts {
						of := w.delivery("odd", "app")
						of.Alert = fmt.Sprint("alert", a)
						give(d, &of)
					}
				}
				if n := lines.of["team-a"]; n == 0 || n > fair.LineBurst {
					t.Errorf("%d lines about %d deliveries, want %d at most", n, alerts*events, fair.LineBurst)
				}
				other := w.delivery("odd", "app")
				other.Namespace = "team-b"
				give(d, &other)
				if lines.of["team-b"] != 1 {
					t.Error("the line about another namespace's delivery is missing")
				}
				if all := int64(lines.of["team-a"]) + lines.left; all != alerts*events {
					t.Errorf("%d lines are written or counted, want %d", all, alerts*events)
				}
			})
		})
	}
}
