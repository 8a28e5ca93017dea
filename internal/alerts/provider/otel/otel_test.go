package otel

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

// read decodes a request as a receiver does, with the protocol's own types and rules. It returns nil for a request that a receiver
// refuses.
func read(r *http.Request) *tracepb.TracesData {
	body, _ := io.ReadAll(r.Body)
	var data tracepb.TracesData
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != contentType || proto.Unmarshal(body, &data) != nil ||
		len(data.ProtoReflect().GetUnknown()) > 0 || len(data.GetResourceSpans()) != 1 {
		return nil
	}
	spans := data.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()
	if len(spans) != 1 {
		return nil
	}
	s := spans[0]
	if len(s.GetTraceId()) != 16 || len(s.GetSpanId()) != 8 || bytes.Count(s.GetSpanId(), []byte{0}) == 8 || s.GetName() == "" ||
		s.GetStartTimeUnixNano() == 0 || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
		return nil
	}
	keys := map[string]bool{}
	for _, a := range s.GetAttributes() {
		if a.GetKey() == "" || keys[a.GetKey()] {
			return nil
		}
		keys[a.GetKey()] = true
	}
	return &data
}

// serve answers like a receiver.
func serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", contentType)
	if read(r) == nil {
		w.WriteHeader(http.StatusBadRequest)
	}
}

// readable returns a handler that sends the decoded request to a Sink as JSON, with IDs in hexadecimal as in OTLP.
func readable(t *testing.T, sink *providertest.Sink) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data := read(r)
		if data == nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		span := data.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()[0]
		trace, id := hex.EncodeToString(span.GetTraceId()), hex.EncodeToString(span.GetSpanId())
		span.TraceId, span.SpanId = nil, nil
		raw, err := protojson.Marshal(data)
		if err != nil {
			t.Error(err)
		}
		body, err := json.Marshal(map[string]any{"traceId": trace, "spanId": id, "traces": json.RawMessage(raw)})
		if err != nil {
			t.Error(err)
		}
		on, err := http.NewRequestWithContext(r.Context(), r.Method, sink.URL+r.URL.Path, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		maps.Copy(on.Header, r.Header)
		resp, err := sink.Client().Do(on)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
	}
}

func newSender(t *testing.T, cfg provider.Config) *Sender {
	t.Helper()
	cfg.Type, cfg.Network = "otel", providertest.Loopback()
	s := providertest.NewSender(t, New, cfg)
	s.now = func() time.Time { return time.Date(2026, 3, 4, 6, 0, 0, 0, time.UTC) }
	return s
}

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{New: provider.Builder(New), Config: provider.Config{Type: "otel"}, Serve: serve, Reads: true})
}

func TestPayloads(t *testing.T) {
	sink := providertest.NewSink(t, nil)
	receiver := providertest.NewSink(t, readable(t, sink))
	providertest.Golden(t, "otel", newSender(t, provider.Config{Address: receiver.URL, Token: "t"}), sink)
}

// span returns the span of a notification.
func span(n provider.Notification) *tracepb.Span { return (&Sender{now: time.Now}).span(n) }

// Fails when the trace's ID differs from Flux's for the Alert and the revision, or two deliveries share a span.
func TestOneRevisionIsOneTraceAndADeliveryOneSpan(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	for want, metadata := range map[string]map[string]string{
		"main@sha1:abc":  {"revision": "main@sha1:abc", "oci-digest": "sha256:d"},
		"1.2.3@sha256:d": {"revision": "1.2.3", "app-version": "1.2.3", "oci-digest": "sha256:d"},
		"src":            {"revision": "1.2.3", "app-version": "1.2.3", "oci-digest": "sha256:d", "source-revision": "src"},
		"unknown":        {"app-version": "1.2.3", "oci-digest": "sha256:d"},
	} {
		n.Event.Metadata = metadata
		sum := sha256.Sum256([]byte(providertest.AlertUID + ":" + want))
		if got := span(n).GetTraceId(); !bytes.Equal(got, sum[:16]) {
			t.Errorf("%v: trace %x, want that of %s", metadata, got, want)
		}
	}
	other := n
	other.DeliveryID = "2"
	if bytes.Equal(span(n).GetSpanId(), span(other).GetSpanId()) || !bytes.Equal(span(n).GetSpanId(), span(n).GetSpanId()) {
		t.Error("two deliveries share a span, or one has two")
	}
}

// Fails when a login without headers is left out, as in Flux, or takes precedence over an Authorization among the headers.
func TestTheLogin(t *testing.T) {
	sink := providertest.NewSink(t, serve)
	for want, cfg := range map[string]provider.Config{
		"Bearer t":   {Token: "t"},
		"Basic dTp0": {Username: "u", Token: "t", Password: "p"},
		"Basic dTpw": {Username: "u", Password: "p"},
		"Token k":    {Username: "u", SecretUsername: true, Headers: map[string]string{"Authorization": "Token k"}},
		"Token p":    {Password: "p", Headers: map[string]string{"Authorization": "Token p"}},
		"Api-Key k":  {Username: "u", Password: "p", Headers: map[string]string{"authorization": "Api-Key k"}},
		"":           {Headers: map[string]string{"X-Scope-OrgID": "a"}},
	} {
		cfg.Address = sink.URL
		if err := newSender(t, cfg).Send(t.Context(), providertest.Notifications(t)["info"]); err != nil {
			t.Error(err)
		}
		last := sink.Last(t)
		if got := last.Header.Get("Authorization"); got != want || last.Path != "/v1/traces" {
			t.Errorf("got %q at %s, want %q", got, last.Path, want)
		}
		if cfg.Headers["X-Scope-OrgID"] != last.Header.Get("X-Scope-OrgID") {
			t.Errorf("the headers are %v", last.Header)
		}
	}
	s := newSender(t, provider.Config{Address: sink.URL, Headers: map[string]string{"content-type": "text/plain", "host": "x"}})
	if got := strings.Join(s.Ignored(), " "); got != "Content-Type Host" {
		t.Errorf("ignored are %q", got)
	}
	for _, cfg := range []provider.Config{{Token: "a\nb"}, {Headers: map[string]string{"a b": "c"}}} {
		cfg.Address = "https://far.test"
		if _, err := New(cfg); err == nil {
			t.Errorf("New took %v", cfg.Headers)
		}
	}
}

func TestAnAddressWithAPathIsKept(t *testing.T) {
	for in, want := range map[string]string{
		"https://a.test": "https://a.test/v1/traces", "https://a.test/": "https://a.test/v1/traces",
		" https://a.test?x=y ":          "https://a.test/v1/traces?x=y",
		"https://a.test/otlp/v1/traces": "https://a.test/otlp/v1/traces", "https:///x": "https:///x", "": "",
	} {
		if got := tracesURL(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// Fails when an answer of 200 that counts the span as rejected is a success, or a malformed one is a failure.
func TestARejectedSpanIsRefusedForGood(t *testing.T) {
	for answer, refused := range map[string]bool{
		"": false, "\x0a\x00": false, "\x0a\x02\x08\x00": false, "\x0a\x02\x08\x01": true, "\x0a\x06\x12\x02no\x08\x05": true,
		"\x0a\x04\x12\x02no": false, "\x12\x01x\x0a\x02\x08\x01": true, "\x0a\x05\x08": false, "\xff\xff": false, "OK": false,
		`{}`: false, `{"partialSuccess":{}}`: false, `{"partialSuccess":{"rejectedSpans":"1"}}`: true,
		`{"partialSuccess":{"rejectedSpans":1}}`: true, `{"partialSuccess":{"rejectedSpans":"0","errorMessage":"s3cret"}}`: false,
	} {
		sink := providertest.NewSink(t, providertest.Says(http.StatusOK, answer))
		err := newSender(t, provider.Config{Address: sink.URL}).Send(t.Context(), providertest.Notifications(t)["error"])
		if (err != nil) != refused {
			t.Errorf("%q: %v", answer, err)
		}
		if got := event.AsError(err); refused && (got.Class != event.Permanent || got.Label != provider.LabelRejected) {
			t.Errorf("%q: %+v", answer, got)
		}
	}
}

// Fails when metadata can set an attribute of the object, or text that is not UTF-8 cannot be encoded.
func TestAttributes(t *testing.T) {
	n := providertest.Notifications(t)["error"]
	n.Event.Metadata = map[string]string{"object.name": "x", "": "x", "cluster": strings.Repeat("é\xff", 2000)}
	n.Event.InvolvedObject.Name = "a\xffb"
	sink := providertest.NewSink(t, serve)
	if err := newSender(t, provider.Config{Address: sink.URL}).Send(t.Context(), n); err != nil {
		t.Error(err)
	}
	var names []string
	for _, a := range span(n).GetAttributes() {
		names = append(names, a.GetKey())
	}
	if diff := cmp.Diff([]string{"object.uid", "object.kind", "object.name", "object.namespace", "cluster"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestWhichEventsAreSent(t *testing.T) {
	for kind, want := range map[string]bool{"HelmRepository": false, "GitRepository": true} {
		if got := Takes(provider.Notification{Event: event.Event{InvolvedObject: event.ObjectReference{Kind: kind}}}); got != want {
			t.Errorf("%s: %t", kind, got)
		}
	}
}

func FuzzRejected(f *testing.F) {
	f.Add([]byte("\x0a\x06\x12\x02no\x08\x05"))
	f.Add([]byte(`{"partialSuccess":{"rejectedSpans":"1"}}`))
	f.Fuzz(func(_ *testing.T, answer []byte) { rejected(answer) })
}

func TestATimeThatNanosecondsCannotExpressIsNow(t *testing.T) {
	now := time.Date(2026, 3, 4, 6, 0, 0, 0, time.UTC)
	s := &Sender{now: func() time.Time { return now }}
	n := providertest.Notifications(t)["info"]
	for _, year := range []int{1, 1960, 2300, 9999} {
		n.Event.Timestamp = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		if got := s.span(n).GetStartTimeUnixNano(); got != uint64(now.UnixNano()) {
			t.Errorf("year %d: %d", year, got)
		}
	}
}
