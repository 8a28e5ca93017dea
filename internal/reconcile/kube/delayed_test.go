package kube_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/reconcile/kube"
)

// Fails when a key that was enqueued for later before the controller runs is reconciled at once, or when the earlier of two times does
// not count.
func TestAKeyEnqueuedForLaterBeforeRunWaitsForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var after []time.Duration
		c := kube.NewController(kube.ControllerOptions[string]{
			Workers: 1, Log: discard(), Parts: func(k string) (namespace, name string) { return k, k },
			Reconcile: func(context.Context, string) error {
				after = append(after, time.Since(began))
				return nil
			},
		})
		c.EnqueueAfter("a", time.Minute)
		c.EnqueueAfter("a", 10*time.Second)
		c.EnqueueAfter("a", time.Hour)
		pass(time.Second)
		runFor(t, c, 2*time.Hour)
		if len(after) != 1 || after[0] != 10*time.Second {
			t.Errorf("reconciled after %v, want once after 10s", after)
		}
	})
}

// Fails when a key that is only not ready yet is logged as a failure, or is not retried with a growing pause.
func TestAKeyThatIsNotYetReadyIsTriedAgainWithoutALogLine(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		line bool
	}{"not yet": {kube.ErrNotYet, false}, "a failure": {errors.New("no"), true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lines bytes.Buffer
				calls := 0
				c := kube.NewController(kube.ControllerOptions[string]{
					Workers: 1, Log: slog.New(slog.NewTextHandler(&lines, nil)),
					Parts:     func(k string) (namespace, name string) { return "team-a", k },
					Reconcile: func(context.Context, string) error { calls++; return tc.err },
				})
				c.Enqueue("a")
				runFor(t, c, 10*time.Minute)
				if calls < 10 || calls > 30 {
					t.Errorf("tried %d times", calls)
				}
				if got := lines.Len() > 0; got != tc.line {
					t.Errorf("logged %q", lines.String())
				}
			})
		})
	}
}

// runFor runs a controller for d.
func runFor(t *testing.T, c *kube.Controller[string], d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	c.Run(ctx)
}
