package incidentio

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const token = "incident-s3cret"

// vendor is an HTTP alert source by its documentation. It refuses all other requests.
type vendor struct{ alerts providertest.IncidentLog }

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, body := http.StatusAccepted, `{"deduplication_key":"x","message":"Event accepted for processing","status":"success"}`
	raw, _ := io.ReadAll(r.Body)
	switch {
	case r.Header.Get("Authorization") != "Bearer "+token:
		status, body = http.StatusUnauthorized, `{"type":"authentication_error","status":401,"errors":[{"code":"s3cret"}]}`
	case r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || len(raw) > 512<<10 || !v.take(raw):
		status, body = http.StatusUnprocessableEntity, `{"type":"validation_error","status":422}`
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func (v *vendor) take(raw []byte) bool {
	var e struct {
		Title, Status, Description string
		Key                        string         `json:"deduplication_key"`
		Metadata                   map[string]any `json:"metadata"`
	}
	if providertest.Decode(raw, &e) != nil || e.Title == "" || e.Key == "" || utf8.RuneCountInString(e.Title) > 255 {
		return false
	}
	switch e.Status {
	case "firing":
		v.alerts.Open(e.Key)
	case "resolved":
		v.alerts.Close(e.Key)
	default:
		return false
	}
	return true
}

func newSender(t *testing.T, address string) *Sender {
	t.Helper()
	return providertest.NewSender(t, New, provider.Config{Type: "incident.io", Address: address, Token: token, Network: providertest.Loopback()})
}

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: provider.Builder(New), Config: provider.Config{Type: "incident.io", Token: token}, Serve: new(vendor).ServeHTTP,
	})
}

func TestPayloads(t *testing.T) {
	sink := providertest.NewSink(t, new(vendor).ServeHTTP)
	providertest.Golden(t, "incidentio", newSender(t, sink.URL+"/v2/alert_events/http/01ABC"), sink)
}

// Fails when the key is not the object's, so that a recovery resolves nothing or a further failure is a further alert.
func TestARecoveryResolvesTheFailuresAlert(t *testing.T) {
	v := new(vendor)
	sink := providertest.NewSink(t, v.ServeHTTP)
	providertest.Incidents(t, func() provider.Sender { return newSender(t, sink.URL) }, v.alerts.Log)
}

// Fails when the largest event, with every character escaped, exceeds the limit, or when metadata replaces the severity.
func TestTheWorstTextFits(t *testing.T) {
	worst := strings.Repeat("\x01", 1<<16)
	n := providertest.Notifications(t)["error"]
	n.Event.Message, n.Event.Reason, n.Event.ReportingController = strings.Repeat("](", 1<<15), worst, worst
	n.Event.Metadata = map[string]string{"severity": "none"}
	for i := range 100 {
		n.Event.Metadata[strings.Repeat(string(rune('a'+i)), 1000)] = worst
	}
	sink := providertest.NewSink(t, new(vendor).ServeHTTP)
	if err := newSender(t, sink.URL).Send(t.Context(), n); err != nil {
		t.Error(err)
	}
	var sent alertEvent
	if err := json.Unmarshal(sink.Last(t).Body, &sent); err != nil {
		t.Fatal(err)
	}
	if sent.Metadata["severity"] != "error" || strings.Contains(sent.Description, "](") {
		t.Errorf("severity %q", sent.Metadata["severity"])
	}
}

// Fails when the type of a refusal is lost, or any other part of its answer is shown.
func TestARefusalShowsItsKind(t *testing.T) {
	sink := providertest.NewSink(t, new(vendor).ServeHTTP)
	s := providertest.NewSender(t, New, provider.Config{Address: sink.URL, Token: "other", Network: providertest.Loopback()})
	if got := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["error"])); got.Reason != "HTTP 401: authentication_error" {
		t.Errorf("got %q", got.Reason)
	}
	if got := word([]byte(`{"type":"s3cret"}`)) + word([]byte(`validation_error`)); got != "" {
		t.Errorf("shows %q", got)
	}
	_, err := New(provider.Config{Address: sink.URL, Network: providertest.Loopback()})
	if err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("without a token: %v", err)
	}
}
