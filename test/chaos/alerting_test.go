package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/test/env"
)

// E2, E3 at alerting services: one object fails, recovers and fails again. The process is killed after each change, and
// the answer to each request that opens or closes an alert is lost. Fails when an alert is opened or closed twice, or
// not at all.
func TestE3AnAlertIsOpenedClosedAndOpenedOverKills(t *testing.T) {
	t.Parallel()
	ctx, w := open(t)
	n := start(ctx, t, w, env.NotifierOptions{})
	tenant, err := w.Tenant(ctx, "alerting")
	must(t, err)
	must(t, tenant.Object(ctx, "Kustomization", "app", nil, ""))
	vendors := alertingVendors()
	for _, v := range vendors {
		v.open = map[string]json.RawMessage{}
		sink, err := env.NewSink()
		must(t, err)
		t.Cleanup(func() { _ = sink.Down() })
		sink.AnswerWith(v.answer)
		address := strings.Replace(sink.URL(v.path), "://", "://"+v.user, 1)
		must(t, tenant.Alert(ctx, "to-"+v.providerType, v.providerType, address, env.AnyKustomization))
	}
	var want []string
	for i, step := range []struct{ severity, reason, adds string }{
		{"error", "HealthCheckFailed", "opened"}, {"info", "ReconciliationSucceeded", "closed"}, {"error", "HealthCheckFailed", "opened"},
	} {
		want = append(want, step.adds)
		for _, v := range vendors {
			v.loseAnswers(1)
		}
		revision := fmt.Sprintf("main@sha1:%040d", i)
		must(t, env.Eventually(ctx, func(ctx context.Context) error {
			event, err := tenant.Event(ctx, "Kustomization", "app", step.severity, step.reason, fmt.Sprintf("step %d", i), revision)
			if err != nil {
				return err
			}
			if step.adds == "closed" { // a Kustomization's success only updates the status of its commit
				event["metadata"].(map[string]string)["kustomize.toolkit.fluxcd.io/commit_status"] = "update"
			}
			got, err := n.Post(ctx, event)
			if err == nil && got.Status != http.StatusAccepted && got.Status != http.StatusTooManyRequests {
				err = fmt.Errorf("HTTP %d", got.Status)
			}
			return err
		}))
		for _, v := range vendors {
			must(t, reaches(ctx, v, want))
		}
		must(t, n.Kill())
		must(t, n.Restart(ctx))
	}
	// Requests without an answer are repeated after the last kill.
	for _, v := range vendors {
		v.loseAnswers(0)
	}
	must(t, env.Eventually(ctx, func(ctx context.Context) error {
		waiting, err := n.Metric(ctx, "notifier_delivery_queue_depth")
		if err == nil && waiting != 0 {
			err = fmt.Errorf("%v deliveries wait", waiting)
		}
		return err
	}))
	for _, v := range vendors {
		if got := v.seen(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", v.providerType, got, want)
		}
	}
}

func reaches(ctx context.Context, v *vendor, want []string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return env.Eventually(ctx, func(context.Context) error {
		if got := v.seen(); !slices.Equal(got, want) {
			return fmt.Errorf("%s: %q, want %q", v.providerType, got, want)
		}
		return nil
	})
}
