package registry_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/event"
)

// Fails when a message counts as sent that got no farther than a page to sign in on the way, or a web server under a wrong address; or as not
// sent to a destination that may be any server.
func TestAWebPageIsTheAnswerOfNoAPI(t *testing.T) {
	const page = "\r\n <!DOCTYPE html><title>Sign in</title>"
	n := provider.Notification{DeliveryID: "d", Event: event.Event{
		Severity: event.SeverityError, Reason: "BuildFailed", InvolvedObject: event.ObjectReference{Kind: "K", Namespace: "n", Name: "o", UID: "1"},
		Metadata: map[string]string{"commit": strings.Repeat("a", 40), provider.ChangeRequestKey: "1"},
	}}
	send := func(typ, contentType, answer string) error {
		cfg, sink := lead(t, typ, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write([]byte(answer))
		})
		s, err := registry.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		err = s.Send(t.Context(), n)
		if len(sink.Requests()) == 0 {
			t.Errorf("%s: no request came", typ)
		}
		return err
	}
	anyServer := []string{"cloudevents", "generic", "generic-hmac", "slack"} // Slack's own hosts are in that type's tests
	for _, typ := range types {
		if noHTTP[typ] != "" {
			continue
		}
		for _, contentType := range []string{"text/html", "Text/HTML; charset=utf-8"} {
			switch err := send(typ, contentType, page); {
			case slices.Contains(anyServer, typ):
				if err != nil {
					t.Errorf("%s: %v", typ, err)
				}
			case err == nil:
				t.Errorf("%s: a page counts as sent", typ)
			case typ != "azuredevops": // which answers so to invalid credentials
				e := event.AsError(err)
				if e.Class != event.Retry || e.Label != provider.LabelReply || provider.Advice(e) == "" {
					t.Errorf("%s: %v of class %v and label %s", typ, e, e.Class, e.Label)
				}
			}
		}
	}
	for contentType, answer := range map[string]string{"text/html": "ok", "text/html; charset=utf-8": "", "text/plain": page, "": page} {
		if err := send("discord", contentType, answer); err != nil {
			t.Errorf("%q, %q: %v", contentType, answer, err)
		}
	}
}
