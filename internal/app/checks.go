package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"notifier/internal/bus"
)

// checks are the conditions of readiness. That the API server answers is none: webhooks and events are accepted without it.
func (a *App) checks() []check {
	return []check{
		{"bus", a.bus.Ready},
		{"compiled", func() error {
			if waiting := a.reconcile.Waiting(); len(waiting) > 0 {
				return fmt.Errorf("still compiling %s", strings.Join(waiting, ", "))
			}
			return nil
		}},
		{"watchers", func() error {
			if !a.watcher.HasSynced() {
				return errors.New("caches are still being filled")
			}
			return nil
		}},
	}
}

// healthReports hands the health of Alerts and Providers to the bus, where the status writer finds it.
type healthReports struct {
	bucket *bus.Health
	log    *slog.Logger
}

// reportTimeout bounds one report: it is worth no more than a newer one that follows.
const reportTimeout = 5 * time.Second

func (r healthReports) Report(ctx context.Context, key string, value []byte) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if err := r.bucket.Put(ctx, key, value); err != nil && ctx.Err() == nil {
		r.log.Warn("health was not reported", "error", err)
	}
}
