package datadog

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const token = "dd-s3cret"

// now is within the hour of the kit's events.
var now = time.Date(2026, 3, 4, 5, 30, 0, 0, time.UTC)

// vendor is the Events API by its documentation, with a monitor of events that is grouped by the aggregation key.
type vendor struct{ monitors providertest.IncidentLog }

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, body := http.StatusAccepted, `{"status":"ok","event":{"id":1}}`
	raw, _ := io.ReadAll(r.Body)
	switch {
	case r.URL.Path != "/api/v1/events" || r.Method != http.MethodPost:
		status, body = http.StatusNotFound, `{"errors":["Not found"]}`
	case r.Header.Get("DD-API-KEY") != token:
		status, body = http.StatusForbidden, `{"errors":["Forbidden"]}`
	case r.Header.Get("Content-Type") != "application/json" || !v.take(raw):
		status, body = http.StatusBadRequest, `{"errors":["s3cret"]}`
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func (v *vendor) take(raw []byte) bool {
	var e struct {
		Title, Text string
		Tags        []string
		AlertType   string `json:"alert_type"`
		Key         string `json:"aggregation_key"`
		Source      string `json:"source_type_name"`
		Happened    *int64 `json:"date_happened"`
	}
	if providertest.Decode(raw, &e) != nil || e.Title == "" || e.Text == "" || e.Key == "" ||
		utf8.RuneCountInString(e.Title) > 500 || utf8.RuneCountInString(e.Text) > 4000 || utf8.RuneCountInString(e.Key) > 100 {
		return false
	}
	if e.Happened != nil {
		if age := now.Sub(time.Unix(*e.Happened, 0)); age > 18*time.Hour || age < -2*time.Hour {
			return false
		}
	}
	if slices.ContainsFunc(e.Tags, func(tag string) bool { return utf8.RuneCountInString(tag) > 200 || tag != strings.ToLower(tag) }) {
		return false
	}
	switch e.AlertType {
	case "error":
		v.monitors.Open(e.Key)
	case "success":
		v.monitors.Close(e.Key)
	case "info":
	default:
		return false
	}
	return true
}

func newSender(t *testing.T, address string) *Sender {
	t.Helper()
	s := providertest.NewSender(t, New, provider.Config{Type: "datadog", Address: address, Token: token, Network: providertest.Loopback()})
	s.now = func() time.Time { return now }
	return s
}

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: provider.Builder(newAt), Config: provider.Config{Type: "datadog", Token: token}, Serve: new(vendor).ServeHTTP,
	})
}

func TestPayloads(t *testing.T) {
	sink := providertest.NewSink(t, new(vendor).ServeHTTP)
	providertest.Golden(t, "datadog", newSender(t, sink.URL+"/ignored?x=y"), sink)
}

// Fails when the events of one object have several keys, or an event that is no recovery ends an alert.
func TestAMonitorGroupedByTheKeyRecoversWithTheObject(t *testing.T) {
	v := new(vendor)
	sink := providertest.NewSink(t, v.ServeHTTP)
	providertest.Incidents(t, func() provider.Sender { return newSender(t, sink.URL) }, v.monitors.Log)
}

// Fails when Datadog refuses an event that waited for long, or whose clock was ahead.
func TestATimeThatDatadogRefusesIsLeftOut(t *testing.T) {
	sink := providertest.NewSink(t, new(vendor).ServeHTTP)
	s := newSender(t, sink.URL)
	for age, stated := range map[time.Duration]bool{
		0: true, 17 * time.Hour: true, 18 * time.Hour: false, 40 * 24 * time.Hour: false, -time.Minute: true, -3 * time.Hour: false,
	} {
		n := providertest.Notifications(t)["error"]
		n.Event.Timestamp = now.Add(-age)
		if err := s.Send(t.Context(), n); err != nil {
			t.Errorf("%v: %v", age, err)
		}
		var sent request
		if err := json.Unmarshal(sink.Last(t).Body, &sent); err != nil || (sent.DateHappened != 0) != stated {
			t.Errorf("%v: date_happened is %d (%v)", age, sent.DateHappened, err)
		}
	}
}

// Fails when an event's text notifies somebody or becomes Markdown, or exceeds its limit because of the inserted characters.
func TestTextNotifiesNobody(t *testing.T) {
	for text, want := range map[string]string{
		"@slack-ops @here %%%\n**x**\n%%%": "@\u200Bslack-ops @\u200Bhere %\u200B%%\n**x**\n%\u200B%%",
		"100% %%%%%":                       "100% %\u200B%%\u200B%%",
	} {
		if diff := cmp.Diff(want, quiet(text, 100)); diff != "" {
			t.Error(diff)
		}
	}
	for _, s := range []string{strings.Repeat("@", 9000), strings.Repeat("%%%@", 3000), "@" + strings.Repeat("x", 3999)} {
		got := quiet(s, maxText)
		if n := utf8.RuneCountInString(got); n > maxText || n < maxText/3 || !strings.HasSuffix(got, "… (truncated)") {
			t.Errorf("%d characters", n)
		}
	}
}

func TestTheWorstEventFits(t *testing.T) {
	n := providertest.Notifications(t)["error"]
	worst := strings.Repeat("@É", 200)
	n.Event.Message, n.Event.Reason, n.Event.ReportingController = strings.Repeat("@", 1<<16), worst, worst
	n.Event.InvolvedObject = event.ObjectReference{Kind: worst[:250], Namespace: worst[:250], Name: worst[:250], UID: worst[:250]}
	n.Event.Metadata = map[string]string{"empty": " "}
	for i := range 40 {
		n.Event.Metadata[fmt.Sprint(worst, i)] = worst
	}
	if err := newSender(t, providertest.NewSink(t, new(vendor).ServeHTTP).URL).Send(t.Context(), n); err != nil {
		t.Error(err)
	}
}

func TestAKeyIsNeededAndARefusalIsShown(t *testing.T) {
	sink := providertest.NewSink(t, new(vendor).ServeHTTP)
	s := providertest.NewSender(t, New, provider.Config{Address: sink.URL, Token: "other", Network: providertest.Loopback()})
	if got := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["error"])); got.Reason != "HTTP 403: Forbidden" {
		t.Errorf("got %q", got.Reason)
	}
	if got := word([]byte(`{"errors":["s3cret"]}`)) + word([]byte(`Forbidden`)); got != "" {
		t.Errorf("shows %q", got)
	}
	_, err := New(provider.Config{Address: sink.URL, Network: providertest.Loopback()})
	if err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("without a token: %v", err)
	}
}

// Fails when a Provider without an address is refused, or is not sent to the site to which Flux's sends.
func TestWithoutAnAddressTheSiteIsTheFirstOne(t *testing.T) {
	for _, address := range []string{"", " \n"} {
		s, err := New(provider.Config{Address: address, Token: token})
		if err != nil {
			t.Errorf("%q: %v", address, err)
		} else if got := s.Root("/api/v1/events").String(); got != "https://api.datadoghq.com/api/v1/events" {
			t.Errorf("%q: %s", address, got)
		}
	}
}

// Fails when the wait that Datadog asks for in a header of its own is not kept.
func TestTheRestOfAPeriodIsWaitedFor(t *testing.T) {
	for header, want := range map[string]time.Duration{"37": 37 * time.Second, "": 0, "x": 0, "99999999": provider.MaxRetryAfter} {
		sink := providertest.NewSink(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-RateLimit-Reset", header)
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"errors":["Too many requests"]}`)
		})
		got := event.AsError(newSender(t, sink.URL).Send(t.Context(), providertest.Notifications(t)["error"]))
		if got.Class != event.Retry || got.RetryAfter != want || got.Period != want || got.Reason != "HTTP 429: Too many requests" {
			t.Errorf("%q: %q, class %d after %v, period %v", header, got.Reason, got.Class, got.RetryAfter, got.Period)
		}
	}
}
