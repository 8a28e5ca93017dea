package opsgenie

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const key = "genie-s3cret"

// vendor is the Alert API by its documentation. It refuses all other requests.
type vendor struct {
	alerts  providertest.IncidentLog
	missing int // the status of answers to closing an alert that is not open
}

func newVendor() *vendor { return &vendor{missing: http.StatusAccepted} }

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := http.StatusNotFound
	// The kit's path is used for /v2/alerts.
	base := "/path-s3cret"
	switch rest, under := strings.CutPrefix(r.URL.Path, base); {
	case r.Header.Get("Authorization") != "GenieKey "+key:
		status = http.StatusUnauthorized
	case r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json":
		status = http.StatusMethodNotAllowed
	case under && rest == "":
		status = v.create(r.Body)
	case under && strings.HasSuffix(rest, "/close"):
		status = v.close(strings.Trim(strings.TrimSuffix(rest, "/close"), "/"), r)
	}
	w.WriteHeader(status)
	switch status {
	case http.StatusAccepted:
		_, _ = io.WriteString(w, `{"result":"Request will be processed","took":0.1,"requestId":"x"}`)
	case http.StatusUnauthorized:
		_, _ = io.WriteString(w, `{"message":"Could not authenticate","took":0.1,"requestId":"x"}`)
	}
}

func strict(body io.Reader, into any) bool {
	raw, err := io.ReadAll(body)
	return err == nil && providertest.Decode(raw, into) == nil
}

func within(s string, least, most int) bool {
	n := utf8.RuneCountInString(s)
	return least <= n && n <= most
}

func (v *vendor) create(body io.Reader) int {
	var a struct {
		Message, Alias, Description, Source string
		Details                             map[string]string
	}
	if !strict(body, &a) || !within(a.Message, 1, 130) || !within(a.Alias, 1, 512) || !within(a.Description, 0, 15000) ||
		!within(a.Source, 0, 100) {
		return http.StatusUnprocessableEntity
	}
	length := 0
	for k, value := range a.Details {
		length += utf8.RuneCountInString(k) + utf8.RuneCountInString(value)
	}
	if length > 8000 {
		return http.StatusUnprocessableEntity
	}
	v.alerts.Open(a.Alias)
	return http.StatusAccepted
}

func (v *vendor) close(alias string, r *http.Request) int {
	var c struct{ Note, Source string }
	if !strict(r.Body, &c) || !within(c.Note, 0, 25000) || !within(c.Source, 0, 100) || r.URL.Query().Get("identifierType") != "alias" {
		return http.StatusUnprocessableEntity
	}
	if !v.alerts.Close(alias) {
		return v.missing
	}
	return http.StatusAccepted
}

func config(address string) provider.Config {
	return provider.Config{
		Type: "opsgenie", UID: "6b1c0f6e-0000-4000-8000-000000000002", Address: address + "/path-s3cret", Token: key,
		Network: providertest.Loopback(),
	}
}

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: provider.Builder(New), Config: provider.Config{Type: "opsgenie", Token: key}, Serve: newVendor().ServeHTTP,
	})
}

func TestPayloads(t *testing.T) {
	sink := providertest.NewSink(t, newVendor().ServeHTTP)
	providertest.Golden(t, "opsgenie", providertest.NewSender(t, New, config(sink.URL)), sink)
}

// Fails when the aliases of a failure and its recovery differ, or when a recovery without an open alert is a failed send.
func TestARecoveryClosesTheFailuresAlert(t *testing.T) {
	for _, missing := range []int{http.StatusAccepted, http.StatusNotFound} {
		v := newVendor()
		v.missing = missing
		sink := providertest.NewSink(t, v.ServeHTTP)
		providertest.Incidents(t, func() provider.Sender { return providertest.NewSender(t, New, config(sink.URL)) }, v.alerts.Log)
	}
}

// Fails when two objects, or the same object by two Providers, share an alias.
func TestEachObjectOfEachProviderHasItsAlias(t *testing.T) {
	seen := map[string]bool{}
	for _, uid := range []string{"u1", "u2"} {
		for _, o := range []event.ObjectReference{
			{Kind: "A", Namespace: "n", Name: "x"},
			{Kind: "B", Namespace: "n", Name: "x"},
			{Kind: "A", Namespace: "m", Name: "x"},
			{Kind: "A", Namespace: "n", Name: "y"},
		} {
			seen[provider.ObjectKey(uid, o)] = true
		}
	}
	if len(seen) != 8 {
		t.Errorf("8 objects have %d aliases", len(seen))
	}
}

// Fails when the largest event, with every character escaped, exceeds a limit of the API.
func TestTheWorstTextFits(t *testing.T) {
	n := providertest.Notifications(t)["error"]
	n.Event.Message, n.Event.ReportingController = strings.Repeat("&", 1<<16), strings.Repeat("é", 1000)
	n.Event.InvolvedObject.Name = strings.Repeat("é", 253)
	n.Event.Metadata = map[string]string{"severity": "x"}
	for i := range 100 {
		n.Event.Metadata[strings.Repeat(string(rune('a'+i)), 3000)] = strings.Repeat("é", 3000)
	}
	sink := providertest.NewSink(t, newVendor().ServeHTTP)
	for _, severity := range []string{"error", "info"} {
		n.Event.Severity = severity
		if err := providertest.NewSender(t, New, config(sink.URL)).Send(t.Context(), n); err != nil {
			t.Errorf("%s: %v", severity, err)
		}
	}
	var sent alert
	if err := json.Unmarshal(sink.Requests()[0].Body, &sent); err != nil {
		t.Fatal(err)
	}
	if sent.Details["severity"] != "error" || len(sent.Details) != 33 || !strings.HasSuffix(sent.Description, "… (truncated)") {
		t.Errorf("severity %q, %d details", sent.Details["severity"], len(sent.Details))
	}
}

// Fails when a known text of a refusal or its wait is lost, or any other part of it is shown.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		status       int
		body, period string
		want         string
		wait         time.Duration
	}{
		{401, `{"message":"Could not authenticate"}`, "", "HTTP 401: Could not authenticate", 0},
		{422, `{"message":"s3cret"}`, "", "HTTP 422", 0},
		{422, `Could not authenticate`, "60", "HTTP 422", 0},
		{429, `{"message":"You are making too many requests!"}`, "60", "HTTP 429: You are making too many requests!", time.Minute},
		{429, `{}`, "x", "HTTP 429", 0},
	} {
		sink := providertest.NewSink(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-RateLimit-Period-In-Sec", c.period)
			w.WriteHeader(c.status)
			_, _ = bytes.NewBufferString(c.body).WriteTo(w)
		})
		got := event.AsError(providertest.NewSender(t, New, config(sink.URL)).Send(t.Context(), providertest.Notifications(t)["error"]))
		if diff := cmp.Diff(c.want, got.Reason); diff != "" || got.RetryAfter != c.wait {
			t.Errorf("%d %s: wait %v (-want +got):\n%s", c.status, c.body, got.RetryAfter, diff)
		}
	}
}

func TestAKeyIsNeeded(t *testing.T) {
	for _, token := range []string{"", "a\nb"} {
		_, err := New(provider.Config{Address: "https://api.opsgenie.com/v2/alerts", Token: token})
		if err == nil || !strings.Contains(err.Error(), "token") {
			t.Errorf("token %q: %v", token, err)
		}
	}
}
