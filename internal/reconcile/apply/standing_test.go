package apply

import (
	"testing"
	"testing/synctest"
	"time"
)

// T4. A trigger that is delivered late coalesces webhooks until it is taken (event.Taker). Fails when its only request is stamped
// before that.
func TestT4WhatATriggerStandsForWhileARequestIsUnderWayGetsOneToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.api.delay = 3 * time.Second // longer than the late trigger waits to be resolved
		r := w.receiver("team-a", "github", "deployer", repo("app"))
		late := trigger(r, r.Targets[0])
		early := late
		early.Accepted = early.Accepted.Add(-time.Millisecond)
		w.send(early)
		pass(100 * time.Millisecond)
		h := w.send(late) // accepted no later than the request was stamped
		pass(10 * time.Second)
		w.want(h, "done")
		patches := w.api.seen()
		stamp, err := time.Parse(time.RFC3339Nano, patches[len(patches)-1].stamp)
		if err != nil || h.taken.IsZero() || stamp.Before(h.taken) {
			t.Errorf("the last of %d requests is stamped %v, the trigger taken %v: %v", len(patches), stamp, h.taken, err)
		}
	})
}
