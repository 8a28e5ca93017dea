package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/test/env"
)

// W2. A namespace that was deleted and made again shows its new owner nothing of the one before: no event, delivery or webhook, in no
// list, by no ID, and at no watch from a time before. Fails when an answer to the new owner has anything of it.
func TestW2ANamespaceThatIsMadeAgainShowsNothingOfTheOneBefore(t *testing.T) {
	s := setUp(t)
	ns := "/v1/namespaces/" + s.Tenant.Namespace
	before := s.token(s.Tenant, "before")
	s.bind(s.Tenant, "before", "notifier-view")
	d := s.deliver(before, s.AlertedSink())
	var events page[struct{ ID string }]
	s.read(before, ns+"/events", &events)
	if len(events.Items) != 1 {
		t.Fatalf("events %+v", events)
	}
	s.Push(s.Receiver(s.Tenant, "hook", "t", ""), "t", http.StatusOK)
	var webhooks page[json.RawMessage]
	s.Must(env.Eventually(s.Ctx, func(context.Context) error {
		if s.read(before, ns+"/webhooks", &webhooks); len(webhooks.Items) != 1 {
			return fmt.Errorf("%d webhooks, want 1", len(webhooks.Items))
		}
		return nil
	}))

	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	s.Must(s.System.DeleteNamespace(s.Ctx, s.Tenant.Namespace))
	<-time.After(1100 * time.Millisecond) // the API server's times are in seconds
	_, err := s.System.Namespace(s.Ctx, s.Tenant.Namespace)
	s.Must(err)
	after := s.token(s.Tenant, "after")
	s.bind(s.Tenant, "after", "notifier-view")
	for _, path := range []string{"/events", "/deliveries", "/webhooks", "/deliveries?state=sent", "/events?since=" + since, "/deliveries?event=" + events.Items[0].ID} {
		var found page[json.RawMessage]
		if s.read(after, ns+path, &found); len(found.Items) != 0 || found.Next != "" {
			t.Errorf("%s: %s", path, found.Items)
		}
	}
	for _, path := range []string{"/deliveries/" + d.ID, "/events/" + events.Items[0].ID + "/explain"} {
		if resp := s.api(after, http.MethodGet, ns+path, ""); resp.Status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, resp.Status, resp.Body)
		}
	}
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.PostEvent(s.Tenant, "Kustomization", "app", "error", "BuildFailed", "of the tenant now", "main@sha1:2")
	s.Must(env.Eventually(s.Ctx, func(context.Context) error {
		resp := s.api(after, http.MethodGet, ns+"/events", "")
		if !strings.Contains(resp.Body, "of the tenant now") || strings.Contains(resp.Body, "no such file") {
			return fmt.Errorf("events: %d %s", resp.Status, resp.Body)
		}
		return nil
	}))
}
