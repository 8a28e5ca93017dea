package app

import (
	"context"
	"time"
)

const (
	// announceEvery is the interval between two checks of a start.
	announceEvery = 200 * time.Millisecond
	// announceLate is the duration of a start after which the missing condition is logged.
	announceLate = 30 * time.Second
)

// announce logs one line when the process serves, and, if that takes long, one line with the condition that it waits for.
func (a *App) announce(ctx context.Context) error {
	began := time.Now()
	tick := time.NewTicker(announceEvery)
	defer tick.Stop()
	late := time.After(announceLate)
	for err := a.health.unready(); err != nil; err = a.health.unready() {
		select {
		case <-tick.C:
		case <-late:
			a.log.Warn("not ready yet", "reason", err)
		case <-ctx.Done():
			return nil
		}
	}
	receivers, alerts, providers := a.reconcile.Objects()
	a.log.Info("serving", "receivers", receivers, "alerts", alerts, "providers", providers,
		"after", time.Since(began).Round(time.Millisecond).String())
	<-ctx.Done()
	return nil
}
