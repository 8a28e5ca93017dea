package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Fails when a count is told before it has grown to the end, or when one that stays at nothing is waited for for ever.
func TestACountHasSettledWhenItGrowsNoMore(t *testing.T) {
	for name, tc := range map[string]struct {
		grows []int
		want  int // looks
	}{
		"one that grows":             {[]int{0, 0, 3, 12, 34, 34, 34, 34, 34}, 8},
		"one that stops and goes on": {[]int{5, 5, 5, 9, 9, 9, 9}, 7},
		"one that stays at nothing":  {[]int{0}, announceLooks},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tick := time.NewTicker(time.Second)
				defer tick.Stop()
				looks := 0
				if !settled(t.Context(), tick.C, func() int {
					looks++
					return tc.grows[min(looks, len(tc.grows))-1]
				}) || looks != tc.want {
					t.Errorf("%d looks, want %d", looks, tc.want)
				}
			})
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if settled(ended, nil, func() int { return 0 }) {
		t.Error("a start that was ended has settled")
	}
}
