package app

import (
	"errors"
	"fmt"
	"strings"
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
