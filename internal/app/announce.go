package app

import (
	"context"
	"time"
)

const (
	// announceEvery is how often a start is looked at.
	announceEvery = 200 * time.Millisecond
	// announceLate is how long a start takes until what it waits for is logged.
	announceLate = 30 * time.Second
)

// announce logs one line when the process serves, and one that says what it waits for when that takes long.
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
