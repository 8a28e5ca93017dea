package chaos

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"notifier/test/env"
)

// E2, T4: an event that was accepted triggers, though the process is killed at once. Fails when the consumer begins from
// now at each start, or when an event is acknowledged before its triggers are on disk.
func TestSubscribeNothingIsLostOverAKillBetweenEventAndTrigger(t *testing.T) {
	t.Parallel()
	ctx, w := open(t)
	tenant, err := w.Tenant(ctx, "subscribe-")
	must(t, err)
	n := start(ctx, t, w, env.NotifierOptions{})
	const kills = 6
	for i := range kills {
		must(t, tenant.ImageReceiver(ctx, fmt.Sprintf("app-%d", i)))
		must(t, awaitTag(ctx, n, tenant, fmt.Sprintf("app-%d", i))) // the process knows the object
	}
	for i := range kills {
		name := fmt.Sprintf("app-%d", i)
		sent := time.Now()
		must(t, postTag(ctx, n, tenant, name, "1.0.0"))
		must(t, n.Kill())
		must(t, n.Restart(ctx))
		at, err := tenant.WaitRequested(ctx, "ImageUpdateAutomation", name, sent)
		must(t, err)
		t.Logf("asked to reconcile %s after the event, over a kill", at.Sub(sent).Round(time.Millisecond))
	}
}

func postTag(ctx context.Context, n *env.Notifier, tenant *env.Tenant, name, tag string) error {
	event, err := tenant.Event(ctx, "ImagePolicy", name, "info", "Succeeded", "Latest image tag resolved to "+tag, tag)
	if err != nil {
		return err
	}
	resp, err := n.Post(ctx, event)
	if err == nil && resp.Status != http.StatusAccepted {
		err = fmt.Errorf("POST of an event: got %d %q", resp.Status, resp.Body)
	}
	return err
}

// awaitTag posts events about tags until one triggers.
func awaitTag(ctx context.Context, n *env.Notifier, tenant *env.Tenant, name string) error {
	tag := 0
	return env.Eventually(ctx, func(ctx context.Context) error {
		tag++
		if err := postTag(ctx, n, tenant, name, fmt.Sprintf("0.0.%d", tag)); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := tenant.WaitRequested(ctx, "ImageUpdateAutomation", name, time.Time{}.Add(1))
		return err
	})
}
