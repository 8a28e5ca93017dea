package subscribe

import (
	"context"
	"encoding/json"
	"strings"

	"notifier/internal/event"
	"notifier/internal/fair"
)

// followReports has the reports of this term stored again when others take their places, until ctx ends. A worker that was stopped or cut off
// may store its own late.
func (w *watch) followReports(ctx context.Context) {
	for ctx.Err() == nil {
		if err := w.Reports.Watch(ctx, w.learn); err != nil && ctx.Err() == nil && event.Owned(ctx) {
			w.Log.Warn("reports of loops are not followed, it will be tried again", "error", err)
		}
		_ = fair.Sleep(ctx, clockTick)
	}
}

// learn takes in a stored report. If the next worker would hold back by it what this one does not, or the other way round, it is replaced.
func (w *watch) learn(key string, value []byte) {
	id, l, ours := reportOf(key, value)
	if !ours {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, pending := w.reports[id]; pending {
		return
	}
	g := w.guards[id]
	if _, exists := w.Subscriptions.get(id); g == nil && !exists {
		if value != nil {
			w.reports[id] = nil
		}
		return
	}
	if g == nil {
		g = &guard{uid: l.UID, generation: l.Generation}
	}
	is := g.report()
	if l != is && (l.Looping || l.Held || is.Looping || is.Held) {
		w.report(id, g)
	}
}

// reportOf returns the Receiver and the Loop of a report, zero for one that cannot be read or was removed: it delays nothing.
func reportOf(key string, value []byte) (id subscriber, l Loop, ours bool) {
	rest, ours := strings.CutPrefix(key, LoopPrefix)
	id.namespace, id.name, _ = strings.Cut(rest, "/")
	if json.Unmarshal(value, &l) != nil {
		l = Loop{}
	}
	return id, l, ours
}
