package alerts

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// E5: deliveries with long messages wait for Providers that are down. Fails when so many of them are read from the schedule that the
// next events of the namespace wait for as long as the Providers are down.
func TestE5WhatWaitsForBrokenProvidersLeavesRoomForTheNextEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		providers, each, size int
		slow                  time.Duration
	}{
		"a few large ones": {2, 20, 3 << 20, 0}, "many of the usual bound": {200, 12, 39_000, 0},
		"several large ones are read at a time": {2, 20, 3 << 20, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.quota = 100_000
				w.bus.slow(tc.slow, "recall")
				text := strings.Repeat("m", tc.size)
				for i := range tc.providers {
					name := fmt.Sprint("broken", i)
					w.destination(name, sendFunc(func(context.Context, provider.Notification) error {
						return failure(event.Retry, provider.LabelConnect)
					}))
					for j := range tc.each {
						d := w.delivery(name, fmt.Sprint("app", j))
						d.Event.Message = text
						w.bus.publish(d)
					}
				}
				d, _, stop := w.start()
				wait(2 * time.Minute)
				full := 0
				for range 600 {
					wait(time.Second)
					if d.Full("team-a") {
						full++
					}
				}
				d.shares.mu.Lock()
				team := d.shares.of["team-a"]
				d.shares.mu.Unlock()
				stop()
				if n, bytes := team.held.Load(), team.heldBytes.Load(); n != 0 || bytes != 0 {
					t.Errorf("%d deliveries of %d bytes count as in memory at the end", n, bytes)
				}
				if full > 0 {
					t.Errorf("the next events wait in %d of 600 seconds", full)
				}
			})
		})
	}
}
