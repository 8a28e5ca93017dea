package registry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/event"
)

// lists are the answers of hosts that are read before a write. All other hosts answer an empty list.
var lists = map[string]string{
	"azuredevops": `{"value":[]}`, "gitea": `{"statuses":[]}`, "bitbucketserver": ``, "bitbucket": ``,
}

// failure returns an event that each type is sent.
func failure(id int) provider.Notification {
	return provider.Notification{
		Event: event.Event{
			InvolvedObject: event.ObjectReference{
				Kind: "Kustomization", Namespace: "team-a", Name: "apps", UID: "7d0b3f1c-9f0a-4a53-8a51-0c1f0e6a1f6b", APIVersion: "kustomize.toolkit.fluxcd.io/v1",
			},
			Severity: event.SeverityError, Reason: "HealthCheckFailed", Message: "health check failed after 30s: Deployment/team-a/web is not ready",
			Timestamp: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), ReportingController: "kustomize-controller",
			Metadata: map[string]string{"revision": "main@sha1:" + strings.Repeat("c0ffee00", 5), "change_request": "7"},
		},
		DeliveryID: fmt.Sprintf("%032x", id), Alert: "on-call", AlertUID: "5a3f1d3e-8a43-4bd5-9d0c-6a2f6f1f5c11",
	}
}

// BenchmarkSend sends one event through each type to a sink, and through a bare HTTP client for comparison. A type that reads before
// it writes makes two or three requests. A type with a fixed host uses a proxy and TLS.
func BenchmarkSend(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		server := httptest.NewServer(nothingYet(""))
		defer server.Close()
		client := server.Client()
		for i := range b.N {
			body, err := json.Marshal(failure(i).Event)
			if err != nil {
				b.Fatal(err)
			}
			resp, err := client.Post(server.URL, "application/json", bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	})
	for _, typ := range registry.Types() {
		if noHTTP[typ] != "" {
			continue
		}
		b.Run(typ, func(b *testing.B) {
			cfg, _ := lead(b, typ, nothingYet(typ))
			cfg.UID = "6b1c0f6e-0000-4000-8000-000000000002"
			s, err := registry.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			for i := range b.N {
				if err := s.Send(b.Context(), failure(i)); err != nil {
					b.Fatalf("%v (%v)", err, event.AsError(err).Unwrap())
				}
			}
		})
	}
}

// nothingYet returns a handler that answers like a type's host without any status or comment.
func nothingYet(typ string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		list, own := lists[typ]
		switch {
		case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/user"):
			_, _ = io.WriteString(w, `{"login":"bot","username":"bot"}`)
		case r.Method == http.MethodGet && own && list == "":
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodGet && own:
			_, _ = io.WriteString(w, list)
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, `[]`)
		default:
			_, _ = io.WriteString(w, `{"ok":true,"code":0,"id":1}`)
		}
	}
}
