package chaos

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"notifier/test/env"
)

// E4 at Git hosts: an object fails and recovers again and again at one commit, hosts refuse writes and lose answers, and
// the process is killed. Fails when a late failure replaces a newer success, or when an object has more than one
// comment.
func TestE4TheLastStatusOfACommitIsTheObjectsLastState(t *testing.T) {
	t.Parallel()
	ctx, w := open(t)
	n := start(ctx, t, w, env.NotifierOptions{})
	tenant, err := w.Tenant(ctx, "statuses")
	must(t, err)
	must(t, tenant.Object(ctx, "Kustomization", "app", nil, ""))
	hosts := gitHosts()
	for _, g := range hosts {
		g.alert(ctx, t, tenant)
	}
	commit := strings.Repeat("c0ffee00", 5)
	const last = 9
	for i := range last + 1 {
		severity, reason := "error", "HealthCheckFailed"
		if i%2 == 1 {
			severity, reason = "info", "ReconciliationSucceeded"
		}
		event, err := tenant.Event(ctx, "Kustomization", "app", severity, reason, fmt.Sprintf("state %d.", i), "main@sha1:"+commit)
		must(t, err)
		metadata := event["metadata"].(map[string]string)
		metadata["event.toolkit.fluxcd.io/commit"], metadata["event.toolkit.fluxcd.io/change_request"] = "sha1:"+commit, "7"
		got, err := n.Post(ctx, event)
		must(t, err)
		if got.Status != http.StatusAccepted {
			t.Fatalf("event %d: HTTP %d", i, got.Status)
		}
		if i == last/2 {
			must(t, n.Kill())
			must(t, n.Restart(ctx))
		}
	}
	// Done when no delivery waits: the state shown then is final.
	must(t, env.Eventually(ctx, func(ctx context.Context) error {
		for _, g := range hosts {
			if err := g.shows(last%2 == 0, fmt.Sprintf("state %d.", last)); err != nil {
				return err
			}
		}
		waiting, err := n.Metric(ctx, "notifier_delivery_queue_depth")
		if err == nil && waiting != 0 {
			err = fmt.Errorf("%v deliveries wait", waiting)
		}
		return err
	}))
	for _, g := range hosts {
		if err := g.shows(last%2 == 0, fmt.Sprintf("state %d.", last)); err != nil {
			t.Error(err)
		}
		t.Logf("%s: %d writes, %d statuses, %d comments", g.providerType, g.writes, len(g.statuses), len(g.comments))
	}
}
