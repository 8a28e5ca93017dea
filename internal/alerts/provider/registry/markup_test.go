package registry_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/event"
)

// passes are the types that pass events on unchanged, for machines.
var passes = []string{"azureeventhub", "cloudevents", "generic", "generic-hmac", "githubdispatch", "googlepubsub"}

// Fails when a text for people is shown in another order than it is written in: "\u202Egpj.exe" is shown as "exe.jpg".
func TestNoTextOfAnEventIsSeenInAnotherOrder(t *testing.T) {
	const hostile = "a\u202Eb\u202Dc\u2066d\u2067e\u2068f\u2069g\u202Ch\u202Ai\u202Bj"
	n := provider.Notification{DeliveryID: "d", Event: event.Event{
		Severity: event.SeverityError, Reason: hostile, Message: hostile, ReportingController: hostile,
		InvolvedObject: event.ObjectReference{Kind: "K", Namespace: "n", Name: "o", UID: "1"},
		Metadata:       map[string]string{"commit": strings.Repeat("a", 40), provider.ChangeRequestKey: "1", hostile: hostile, "summary": hostile},
	}}
	for _, typ := range types {
		if noHTTP[typ] != "" || slices.Contains(passes, typ) {
			continue
		}
		cfg, sink := lead(t, typ, func(w http.ResponseWriter, r *http.Request) {
			answer := `[]`
			switch {
			case strings.HasSuffix(r.URL.Path, "/user"):
				answer = `{"login":"me","username":"me"}`
			case strings.HasSuffix(r.URL.Path, "/status"), typ == "azuredevops":
				answer = `{}`
			}
			_, _ = w.Write([]byte(answer))
		})
		s, err := registry.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Send(t.Context(), n)
		_ = s.Close()
		if len(sink.Requests()) == 0 {
			t.Errorf("%s: no request came", typ)
		}
		for _, r := range sink.Requests() {
			seen, err := url.QueryUnescape(string(r.Body)) // decoded like a form
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
