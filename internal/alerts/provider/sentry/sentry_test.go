package sentry

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const key = "abc-s3cret"

// vendor is the envelope endpoint as Sentry's documentation of its protocol has it. It drops an error that it has already.
type vendor struct {
	mu     sync.Mutex
	seen   map[string]bool
	issues map[string]int // errors by fingerprint
	trail  []string       // transactions
}

func newVendor() *vendor { return &vendor{seen: map[string]bool{}, issues: map[string]int{}} }

var (
	isID   = regexp.MustCompile(`^[0-9a-f]{32}$`)
	isSpan = regexp.MustCompile(`^[0-9a-f]{16}$`)
	isKey  = regexp.MustCompile(`^[a-zA-Z0-9_.:-]{1,200}$`)
)

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	const auth = "Sentry sentry_version=7, sentry_client=notifier/1.0, sentry_key=" + key
	switch {
	case r.Method != http.MethodPost || !regexp.MustCompile(`^(/[^/]+)*/api/[^/]+/envelope/$`).MatchString(r.URL.Path):
		w.WriteHeader(http.StatusNotFound)
	case r.Header.Get("X-Sentry-Auth") != auth || r.Header.Get("Authorization") != "":
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"detail":"bad sentry DSN public key"}`)
	case r.Header.Get("Content-Type") != "application/x-sentry-envelope" || len(raw) > 200<<10 || !v.take(string(raw)):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"detail":"invalid event envelope","causes":["s3cret"]}`)
	default:
		_, _ = io.WriteString(w, `{"id":"x"}`)
	}
}

func strict(raw string, into any) bool {
	d := json.NewDecoder(strings.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into) == nil
}

func (v *vendor) take(raw string) bool {
	lines := strings.Split(raw, "\n")
	if len(lines) != 4 || lines[3] != "" {
		return false
	}
	var head struct {
		ID string `json:"event_id"`
	}
	var itemHead struct {
		Type   string
		Length int
	}
	var i item
	if !strict(lines[0], &head) || !strict(lines[1], &itemHead) || !strict(lines[2], &i) ||
		itemHead.Length != len(lines[2]) || head.ID != i.EventID || !isID.MatchString(i.EventID) || i.Timestamp.IsZero() {
		return false
	}
	for k, value := range i.Tags {
		if !isKey.MatchString(k) || value == "" || utf8.RuneCountInString(value) > 200 || strings.ContainsAny(value, "\n\r") {
			return false
		}
	}
	if utf8.RuneCountInString(i.Message) > 8192 || utf8.RuneCountInString(i.Transaction) > 200 || utf8.RuneCountInString(i.Environment) > 64 {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch itemHead.Type {
	case "event":
		if i.Level != "error" || i.Type != "" || len(i.Fingerprint) == 0 {
			return false
		}
		if !v.seen[i.EventID] {
			v.issues[strings.Join(i.Fingerprint, " ")]++
		}
		v.seen[i.EventID] = true
		return true
	case "transaction":
		v.trail = append(v.trail, i.Transaction)
		return i.Type == "transaction" && i.Start != nil && i.Contexts != nil && isID.MatchString(i.Contexts.Trace.TraceID) &&
			isSpan.MatchString(i.Contexts.Trace.SpanID)
	default:
		return false
	}
}

// dsn returns the DSN of project 42 at an address.
func dsn(address string) string { return strings.Replace(address, "://", "://"+key+"@", 1) + "/42" }

func newSender(t *testing.T, address string) *Sender {
	t.Helper()
	s, err := New(provider.Config{Type: "sentry", Address: address, Channel: "production", Network: providertest.Loopback()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.now = func() time.Time { return time.Date(2026, 3, 4, 6, 0, 0, 0, time.UTC) }
	return s
}

func TestContract(t *testing.T) {
	build := func(cfg provider.Config) (provider.Sender, error) {
		if u, err := url.Parse(cfg.Address); err == nil && u.Host != "" {
			u.User = url.User(key)
			cfg.Address = u.String()
		}
		s, err := New(cfg)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	providertest.Run(t, providertest.Subject{New: build, Config: provider.Config{Type: "sentry"}, Serve: newVendor().ServeHTTP})
}

func TestPayloads(t *testing.T) {
	sink := providertest.NewSink(t, newVendor().ServeHTTP)
	providertest.Golden(t, "sentry", newSender(t, dsn(sink.URL)), sink)
}

// Fails when the failures of one object for one reason are several issues, those of two objects are one, or a repeated send counts.
func TestTheFailuresOfAnObjectAreOneIssue(t *testing.T) {
	v := newVendor()
	s := newSender(t, dsn(providertest.NewSink(t, v.ServeHTTP).URL))
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

// Fails when a path before the project's number is lost, as self-hosted Sentrys have it, or the DSN's key is sent in another way.
func TestADSNNamesTheEndpointAndTheKey(t *testing.T) {
	for in, want := range map[string]string{
		"https://k@o1.ingest.sentry.io/42":          "https://o1.ingest.sentry.io/api/42/envelope/",
		" https://k:secret@sentry.test/a/b/42/?x=y": "https://sentry.test/a/b/api/42/envelope/",
	} {
		got, key, err := parseDSN(in)
		if err != nil || got != want || key != "k" {
			t.Errorf("%s: got %s, %s, %v", in, got, key, err)
		}
	}
	for _, in := range []string{
		"https://sentry.test/42", "https://k@sentry.test", "https://k@sentry.test/", "https://k@/42", "k@sentry.test/42",
	} {
		if _, _, err := parseDSN(in); err == nil || strings.Contains(err.Error(), "sentry.test") {
			t.Errorf("%s: %v", in, err)
		}
	}
	if _, err := New(provider.Config{Address: "https://a%0Ab@sentry.test/42"}); err == nil {
		t.Error("New took a key over two lines")
	}
}

// Fails when the largest event, every character of it escaped, is beyond what Sentry takes.
func TestTheWorstTextFits(t *testing.T) {
	worst := strings.Repeat("\x01\n", 1<<15)
	n := providertest.Notifications(t)["error"]
	n.Event.Message, n.Event.Reason, n.Event.ReportingController, n.Event.ReportingInstance = worst, worst, worst, worst
	n.Event.InvolvedObject = event.ObjectReference{Kind: worst[:250], Namespace: "n" + worst[:250], Name: worst[:250], UID: worst[:250]}
	n.Event.Metadata = map[string]string{}
	for i := range 100 {
		n.Event.Metadata[strings.Repeat(string(rune('a'+i))+" ", 500)] = "x" + worst
	}
	s := newSender(t, dsn(providertest.NewSink(t, newVendor().ServeHTTP).URL))
	for _, severity := range []string{"error", "info"} {
		n.Event.Severity = severity
		if err := s.Send(t.Context(), n); err != nil {
			t.Errorf("%s: %v", severity, err)
		}
	}
}

func TestARefusalShowsSentrysOwnWords(t *testing.T) {
	sink := providertest.NewSink(t, newVendor().ServeHTTP)
	other := newSender(t, strings.Replace(dsn(sink.URL), key, "other", 1))
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
