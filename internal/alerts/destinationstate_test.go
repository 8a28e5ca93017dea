package alerts

import (
	"testing"
	"time"

	"golang.org/x/time/rate"

	"notifier/internal/event"
)

// Fails when a queue keeps in memory more than its destination takes in the next two seconds, or fewer although it takes them, and when the
// pace does not follow the destination's.
func TestAQueueKeepsInMemoryWhatItsDestinationTakesSoon(t *testing.T) {
	now := time.Now()
	accepted := func(took time.Duration) func(*destinationState) {
		return func(d *destinationState) {
			for range 100 {
				d.attempted(&Destination{}, took, nil, now)
			}
		}
	}
	limited := func(limit rate.Limit) func(*destinationState) {
		return func(d *destinationState) { d.adopt(&Destination{Limit: limit, Burst: 1}, now) }
	}
	failing := func(d *destinationState) {
		for range breakerTrips {
			d.attempted(&Destination{}, time.Millisecond, event.NewError(event.Retry, "connect", "refused", nil), now)
		}
	}
	unusable := func(d *destinationState) { d.unusable = true }
	for name, tc := range map[string]struct {
		happened []func(*destinationState)
		least    int
		most     int
	}{
		"nothing is known":                    {nil, unknownDepth, unknownDepth},
		"it takes a millisecond":              {[]func(*destinationState){accepted(time.Millisecond)}, maxDepth, maxDepth},
		"it takes 100 ms":                     {[]func(*destinationState){accepted(100 * time.Millisecond)}, 155, 165},
		"it takes a second":                   {[]func(*destinationState){accepted(time.Second)}, minDepth, minDepth},
		"it takes 100 ms now":                 {[]func(*destinationState){accepted(time.Second), accepted(100 * time.Millisecond)}, 155, 165},
		"it is limited to 50 a second":        {[]func(*destinationState){limited(50)}, 100, 100},
		"it is quick and limited":             {[]func(*destinationState){accepted(time.Millisecond), limited(50)}, 100, 100},
		"it was limited to 50 before":         {[]func(*destinationState){limited(50), limited(200)}, 400, 400},
		"it is no longer limited":             {[]func(*destinationState){limited(50), limited(0)}, unknownDepth, unknownDepth},
		"it has no limit":                     {[]func(*destinationState){limited(50), limited(rate.Inf)}, unknownDepth, unknownDepth},
		"it cannot be used":                   {[]func(*destinationState){unusable}, badDepth, badDepth},
		"it can be used again":                {[]func(*destinationState){unusable, limited(50)}, 100, 100},
		"it failed often":                     {[]func(*destinationState){accepted(time.Millisecond), failing}, badDepth, badDepth},
		"it failed often, and accepted since": {[]func(*destinationState){failing, accepted(time.Millisecond)}, maxDepth, maxDepth},
	} {
		t.Run(name, func(t *testing.T) {
			var d destinationState
			for _, happen := range tc.happened {
				happen(&d)
			}
			if got := d.depth(now); got < tc.least || got > tc.most {
				t.Errorf("keeps %d, want %d to %d", got, tc.least, tc.most)
			}
		})
	}
}

// Fails when an open breaker or a wait that the destination asked for survives a change of the Provider, which may now be another account or
// host; or when the wait ends although the Provider did not change.
func TestAChangedDestinationIsTriedAtOnce(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		to      *Destination
		changed bool
	}{
		"another configuration":    {&Destination{Version: "2"}, true},
		"the same, compiled again": {&Destination{Version: "1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var d destinationState
			d.adopt(&Destination{Version: "1"}, now)
			d.mended = false
			asked := event.NewError(event.Retry, "http_429", "slow down", nil)
			asked.RetryAfter = time.Minute
			for range breakerTrips {
				d.attempted(d.current, time.Millisecond, asked, now)
			}
			changed := d.adopt(tc.to, now)
			if changed != tc.changed || d.mended != tc.changed || d.opensAt().After(now) == tc.changed || d.breaker.until.After(now) {
				t.Errorf("changed %v, mended %v, opens in %s, is probed in %s", changed, d.mended, d.opensAt().Sub(now), d.breaker.until.Sub(now))
			}
		})
	}
}
