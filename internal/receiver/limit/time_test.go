package limit

import (
	"context"
	"testing"
	"testing/synctest"
)

// Fails when work that stood still is not done again, is done more than twice, or when work whose sender has left is.
func TestWorkThatStoodStillIsDoneOnceMore(t *testing.T) {
	for name, tc := range map[string]struct {
		late  int // calls that take all the time
		leave bool
		want  int // calls
	}{
		"in time":           {want: 1},
		"late once":         {late: 1, want: 2},
		"always late":       {late: 9, want: 2},
		"its sender leaves": {late: 9, leave: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				calls := 0
				InTime(ctx, func(ctx context.Context) {
					if calls++; calls <= tc.late {
						elapse(FilterTime)
						<-ctx.Done()
					}
					if tc.leave {
						cancel()
					}
				})
				if calls != tc.want {
					t.Errorf("%d calls, not %d", calls, tc.want)
				}
			})
		})
	}
}
