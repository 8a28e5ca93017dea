package app

import (
	"context"
	"time"
)

const (
	// announceEvery is how often a start is looked at.
	announceEvery = 200 * time.Millisecond
	// announceSteady is for how many looks in a row a count is the same when it has settled, and announceLooks how many there are at most:
	// a replica may have no role.
	announceSteady, announceLooks = 3, 50
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
	if !settled(ctx, tick.C, a.bus.Roles) {
		return nil
	}
	receivers, alerts, providers := a.reconcile.Objects()
	a.log.Info("serving", "receivers", receivers, "alerts", alerts, "providers", providers, "roles", a.bus.Roles(),
		"after", time.Since(began).Round(time.Millisecond).String())
	<-ctx.Done()
	return nil
}

// settled waits until a count, looked at with each tick, has come to something and grows no more. It returns false when ctx ends first.
func settled(ctx context.Context, tick <-chan time.Time, count func() int) bool {
	last, steady := 0, 0
	for range announceLooks {
		select {
		case <-tick:
		case <-ctx.Done():
			return false
		}
		now := count()
		if steady++; now != last || now == 0 {
			last, steady = now, 0
		}
		if steady == announceSteady {
			break
		}
	}
	return true
}
