package registry_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/event"
)

// passes are the types that pass events on as they are, for machines.
var passes = []string{"cloudevents", "generic", "generic-hmac", "githubdispatch"}

// Fails when a text that people read is shown in another order than it is written in: "\u202Egpj.exe" is seen as "exe.jpg".
func TestNoTextOfAnEventIsSeenInAnotherOrder(t *testing.T) {
	const hostile = "a\u202Eb\u202Dc\u2066d\u2067e\u2068f\u2069g\u202Ch\u202Ai\u202Bj"
	n := provider.Notification{DeliveryID: "d", Event: event.Event{
		Severity: event.SeverityError, Reason: hostile, Message: hostile, ReportingController: hostile,
		InvolvedObject: event.ObjectReference{Kind: "K", Namespace: "n", Name: "o", UID: "1"},
		Metadata:       map[string]string{"commit": strings.Repeat("a", 40), provider.ChangeRequestKey: "1", hostile: hostile, "summary": hostile},
	}}
	for _, typ := range types {
		sink := providertest.NewSink(t, func(w http.ResponseWriter, r *http.Request) {
			answer := `[]`
			switch {
			case strings.HasSuffix(r.URL.Path, "/user"):
				answer = `{"login":"me","username":"me"}`
			case strings.HasSuffix(r.URL.Path, "/status"), typ == "azuredevops":
				answer = `{}`
			}
			_, _ = w.Write([]byte(answer))
		})
		cfg := config(typ)
		cfg.Address, cfg.Network = strings.Replace(cfg.Address, "https://far.test", sink.URL, 1), providertest.Loopback()
		if typ == "sentry" {
			cfg.Address = strings.Replace(sink.URL, "http://", "http://key@", 1) + "/1"
		}
		if !strings.HasPrefix(cfg.Address, "http://") || slices.Contains(passes, typ) {
			continue // its host is fixed, it does not speak HTTP, or it passes the event on
		}
		s, err := registry.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Send(t.Context(), n)
		_ = s.Close()
		for _, r := range sink.Requests() {
			seen, err := url.QueryUnescape(string(r.Body)) // as that of a form
			if err != nil {
				seen = string(r.Body)
			}
			for _, c := range "\u202A\u202B\u202C\u202D\u202E\u2066\u2067\u2068\u2069" {
				if strings.ContainsRune(seen, c) {
					t.Errorf("%s: %s %s has %U: %.300s", typ, r.Method, r.Path, c, r.Body)
				}
			}
		}
	}
}
