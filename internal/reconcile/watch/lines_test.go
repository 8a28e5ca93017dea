package watch

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/fair"
)

// lineCount counts the lines about transitions, and those that were left out.
type lineCount struct {
	slog.Handler
	mu            sync.Mutex
	written, left int64
}

func (c *lineCount) Enabled(context.Context, slog.Level) bool { return true }

func (c *lineCount) WithAttrs([]slog.Attr) slog.Handler { return c }

func (c *lineCount) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Message != "transition published" {
		return nil
	}
	c.written++
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "lines_left_out" {
			c.left += a.Value.Int64()
		}
		return true
	})
	return nil
}

func (c *lineCount) counts() (written, left int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written, c.left
}

// T6: all of a namespace's objects flap together. Fails when each transition has a line, or when the omitted lines are not counted.
func TestT6TheLinesAboutANamespacesTransitionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		lines := &lineCount{}
		w.log = lines
		w.define("Kustomization", "v1")
		const objects = fair.LineBurst + 2000
		defer w.silent()()
		for i := range objects {
			name := fmt.Sprint("app-", i)
			u := w.object(kustomization{name: name, uid: name, failed: true})
			w.must(w.dynamic.Tracker().Create(kustomizations, u, "team-a"))
			synctest.Wait()
		}
		pass(6 * time.Second)
		written, _ := lines.counts()
		if published := len(w.bus.told()); published != objects || written == 0 || written > fair.LineBurst {
			t.Fatalf("%d lines about %d transitions, want %d lines at most about %d", written, published, fair.LineBurst, objects)
		}
		pass(6 * time.Second)
		w.put(kustomization{name: "app-0", uid: "app-0"})
		pass(6 * time.Second)
		if written, left := lines.counts(); written+left != objects+1 {
			t.Errorf("%d lines are written and %d counted, want %d together", written, left, objects+1)
		}
	})
}
