package registry_test

import (
	"net/http"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/event"
)

// Fails when the advice after a refusal leaves out the field that is wrong. Git hosts say "not found" to a token without rights, and others to
// a channel that does not exist.
func TestAdviceNamesTheFieldThatIsWrong(t *testing.T) {
	for _, c := range []struct {
		typ    string
		status int
		answer string
		named  []string
	}{
		{"github", http.StatusNotFound, `{"message":"Not Found"}`, []string{"token"}},
		{"github", http.StatusUnprocessableEntity, `{"message":"No commit found for SHA: cccc"}`, []string{"repository"}},
		{
			"github", http.StatusUnprocessableEntity,
			`{"message":"Validation Failed","errors":[{"code":"custom","message":"This SHA and context has reached the maximum number of statuses."}]}`,
			[]string{"commit", "spec.commitStatusExpr"},
		},
		{
			"github", http.StatusUnprocessableEntity,
			`{"message":"Validation Failed","errors":[{"code":"custom","field":"context","message":"context doesn't accept 4-byte Unicode"}]}`,
			[]string{"emoji", "spec.commitStatusExpr"},
		},
		{"gitlab", http.StatusNotFound, `{"message":"404 Project Not Found"}`, []string{"token"}},
		{"gitlab", http.StatusNotFound, `{"message":"404 Commit Not Found"}`, []string{"commit's repository"}},
		{"matrix", http.StatusForbidden, `{"errcode":"M_FORBIDDEN","error":"User not in room"}`, []string{"join", "spec.channel"}},
		{"zulip", http.StatusUnauthorized, `{"result":"error","msg":"Invalid API key","code":"INVALID_API_KEY"}`, []string{"username", "password"}},
		{"lark", http.StatusOK, `{"code":19024,"msg":"Key Words Not Found"}`, []string{"keyword", "spec.summary"}},
		{"gitea", http.StatusNotFound, `{"message":"The target couldn't be found."}`, []string{"token"}},
		{"webex", http.StatusNotFound, `{"message":"Could not find a room with provided ID."}`, []string{"spec.channel"}},
		{"pagerduty", http.StatusBadRequest, `{"status":"invalid event","errors":["Invalid routing key"]}`, []string{"spec.channel", "token"}},
		{
			"pagerduty", http.StatusBadRequest,
			`{"status":"invalid event","errors":["Length of 'routing_key' is incorrect (should be 32 characters)"]}`,
			[]string{"spec.channel", "token"},
		},
		{"opsgenie", http.StatusUnprocessableEntity, `{"message":"Key format is not valid!"}`, []string{"token"}},
		{"discord", http.StatusBadRequest, `{"message":"Message blocked by harmful links filter","code":240000}`, []string{"exclusionList", "link"}},
	} {
		sink := providertest.NewSink(t, providertest.Says(c.status, c.answer))
		cfg := config(c.typ)
		cfg.Address, cfg.Network = sink.URL+"/owner/name", providertest.Loopback()
		s, err := registry.New(cfg)
		if err != nil {
			t.Fatal(c.typ, err)
		}
		n := providertest.Notifications(t)["error"]
		n.Event.Metadata = map[string]string{"commit": strings.Repeat("c", 40)}
		failure := event.AsError(s.Send(t.Context(), n))
		advice := provider.Advice(failure)
		for _, field := range c.named {
			if failure.Class != event.Permanent || !strings.Contains(advice, field) {
				t.Errorf("%s: %s; %s: %s is not named", c.typ, failure.Reason, advice, field)
			}
		}
		_ = s.Close()
	}
}

// Fails when the owner of a Provider is sent to check what is right while the vendor only has a fault of its own.
func TestNoAdviceWhileTheVendorHasAFault(t *testing.T) {
	sink := providertest.NewSink(t, providertest.Says(http.StatusOK, `{"ok":false,"error":"internal_error"}`))
	cfg := config("slack")
	cfg.Address, cfg.Network = sink.URL+"/api/chat.postMessage", providertest.Loopback()
	s, err := registry.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	failure := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["error"]))
	if advice := provider.Advice(failure); failure.Class != event.Retry || failure.Reason != "Slack: internal_error" || advice != "" {
		t.Errorf("%s; %q", failure.Reason, advice)
	}
	_ = s.Close()
}

// Fails when the advice after a recovery whose look-up is refused is that of a refused message: a proxy, or a token, may take alerts and show
// none.
func TestAdviceAfterARefusedLookUpNamesIt(t *testing.T) {
	for _, status := range []int{http.StatusMethodNotAllowed, http.StatusForbidden} {
		sink := providertest.NewSink(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				w.WriteHeader(status)
			}
		})
		cfg := config("alertmanager")
		cfg.Address, cfg.Network = sink.URL+"/api/v2/alerts", providertest.Loopback()
		s, err := registry.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(t.Context(), providertest.Notifications(t)["error"]); err != nil {
			t.Errorf("a failure: %v", err)
		}
		failure := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"]))
		if advice := provider.Advice(failure); failure.Status != status || !strings.Contains(advice, "GET") || !strings.Contains(advice, "read") {
			t.Errorf("%s; %s", failure.Reason, advice)
		}
		_ = s.Close()
	}
}
