package sentry

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const (
	key   = "abc-s3cret"
	token = "sntrys-s3cret"
	uid   = "6b1c0f6e-0000-4000-8000-000000000002"
)

// dsnAt returns the DSN of project 42 at an address.
func dsnAt(address string) string { return strings.Replace(address, "://", "://"+key+"@", 1) + "/42" }

func newSender(t *testing.T, address string) *Sender {
	t.Helper()
	return senderOf(t, provider.Config{Address: address})
}

func senderOf(t *testing.T, cfg provider.Config) *Sender {
	t.Helper()
	cfg.Type, cfg.Channel, cfg.Network = "sentry", "production", providertest.Loopback()
	s := providertest.NewSender(t, New, cfg)
	s.now = func() time.Time { return time.Date(2026, 3, 4, 6, 0, 0, 0, time.UTC) }
	if s.issues != nil {
		s.issues.began = s.now().Add(-searchable)
	}
	return s
}

// Fails when a DSN alone, or one with a token, breaks the contract.
func TestContract(t *testing.T) {
	for name, forget := range map[string]bool{"a DSN": true, "a DSN and a token": false} {
		t.Run(name, func(t *testing.T) { contract(t, forget) })
	}
}

func contract(t *testing.T, forgetToken bool) {
	build := provider.Builder(func(cfg provider.Config) (*Sender, error) {
		if forgetToken {
			cfg.Token = ""
		}
		if u, err := url.Parse(cfg.Address); err == nil && u.Host != "" {
			u.User = url.User(key)
			cfg.Address = u.String()
		}
		return New(cfg)
	})
	providertest.Run(t, providertest.Subject{
		New: build, Config: provider.Config{Type: "sentry", Token: token}, Serve: newVendor().ServeHTTP, Path: "path-s3cret/42",
		Reads: !forgetToken,
	})
}

func TestPayloads(t *testing.T) {
	sink := providertest.NewSink(t, newVendor().ServeHTTP)
	providertest.Golden(t, "sentry", newSender(t, dsnAt(sink.URL)), sink)
}

// Fails when a token changes more than the tag and the resolving request.
func TestPayloadsWithAToken(t *testing.T) {
	sink := providertest.NewSink(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			newVendor().ServeHTTP(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"status":"resolved"}`)
	})
	s := senderOf(t, provider.Config{Address: dsnAt(sink.URL), Token: token, UID: uid})
	s.issues.organizationIs("acme")
	providertest.Golden(t, "token", s, sink)
}

// Fails when the failures of one object for one reason are several issues, those of two objects are one, or a repeated send counts.
func TestTheFailuresOfAnObjectAreOneIssue(t *testing.T) {
	v := newVendor()
	s := newSender(t, dsnAt(providertest.NewSink(t, v.ServeHTTP).URL))
	for i, c := range []struct{ uid, message string }{{"u1", "a"}, {"u1", "a"}, {"u1", "b"}, {"u2", "b"}} {
		n := providertest.Notifications(t)["error"]
		n.Event.InvolvedObject.UID, n.Event.Message = c.uid, c.message
		n.DeliveryID = []string{"first", "first", "second", "third"}[i]
		if err := s.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]int{"u1 HealthCheckFailed": 2, "u2 HealthCheckFailed": 1}, v.issues); diff != "" {
		t.Errorf("errors by issue (-want +got):\n%s", diff)
	}
	if len(v.trail) != 0 {
		t.Errorf("%d transactions", len(v.trail))
	}
}

// Fails when the largest event, with every character escaped, exceeds Sentry's limit.
func TestTheWorstTextFits(t *testing.T) {
	worst := strings.Repeat("\x01\n", 1<<15)
	n := providertest.Notifications(t)["error"]
	n.Event.Message, n.Event.Reason, n.Event.ReportingController, n.Event.ReportingInstance = worst, worst, worst, worst
	n.Event.InvolvedObject = event.ObjectReference{Kind: worst[:250], Namespace: "n" + worst[:250], Name: worst[:250], UID: worst[:250]}
	n.Event.Metadata = map[string]string{}
	for i := range 100 {
		n.Event.Metadata[strings.Repeat(string(rune('a'+i))+" ", 500)] = "x" + worst
	}
	s := newSender(t, dsnAt(providertest.NewSink(t, newVendor().ServeHTTP).URL))
	for _, severity := range []string{"error", "info"} {
		n.Event.Severity = severity
		if err := s.Send(t.Context(), n); err != nil {
			t.Errorf("%s: %v", severity, err)
		}
	}
}

func TestARefusalShowsSentrysOwnWords(t *testing.T) {
	sink := providertest.NewSink(t, newVendor().ServeHTTP)
	other := newSender(t, strings.Replace(dsnAt(sink.URL), key, "other", 1))
	got := event.AsError(other.Send(t.Context(), providertest.Notifications(t)["error"]))
	if got.Reason != "HTTP 403: bad sentry DSN public key" {
		t.Errorf("got %q", got.Reason)
	}
	if got := word([]byte(`{"detail":"s3cret"}`)) + word([]byte(`invalid event envelope`)); got != "" {
		t.Errorf("shows %q", got)
	}
}

func TestAnEventIDHas32Digits(t *testing.T) {
	for _, delivery := range []string{providertest.DeliveryID, strings.Repeat("0f", 32), "first", ""} {
		if got := eventID(delivery); !isID.MatchString(got) {
			t.Errorf("%q becomes %q", delivery, got)
		}
	}
}
