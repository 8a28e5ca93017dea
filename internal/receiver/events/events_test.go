package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/event"
	"notifier/internal/receiver/limit"
)

var errBusTooLarge = errors.New("too large for the bus")

func newEvents(t testing.TB, bus Events, change func(*Options)) *Handler {
	t.Helper()
	o := DefaultOptions()
	o.Events, o.Objects, o.Log, o.Registerer = bus, cache{}, slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	o.TooLarge = errBusTooLarge
	if change != nil {
		change(&o)
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// posted returns an event as kustomize-controller sends it.
func posted(change func(*event.Event)) string {
	e := event.Event{
		InvolvedObject: event.ObjectReference{
			Kind: "Kustomization", Namespace: "team-a", Name: "app", UID: "uid-1", APIVersion: "kustomize.toolkit.fluxcd.io/v1",
		},
		Severity: event.SeverityError, Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Message: "it failed",
		Reason: "BuildFailed", ReportingController: "kustomize-controller",
		Metadata: map[string]string{"kustomize.toolkit.fluxcd.io/revision": "main@sha1:1"},
	}
	if change != nil {
		change(&e)
	}
	b, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func post(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func TestTheEventsEndpointAnswers(t *testing.T) {
	with := func(change func(*event.Event)) *http.Request { return post(posted(change)) }
	request := func(change func(*http.Request)) *http.Request {
		r := post(posted(nil))
		change(r)
		return r
	}
	for name, tc := range map[string]struct {
		request *http.Request
		err     error
		status  int
		result  string
		reason  string
	}{
		"an event":                      {post(posted(nil)), nil, 202, "accepted", ""},
		"fields of a later version":     {post(strings.Replace(posted(nil), "{", `{"action":"x","relatedObject":{"kind":"y"},`, 1)), nil, 202, "accepted", ""},
		"an event of an unknown object": {with(func(e *event.Event) { e.InvolvedObject.Name = "other" }), nil, 202, "accepted", ""},
		"what is not sent in time": {
			request(func(r *http.Request) { r.Body = io.NopCloser(iotest.ErrReader(os.ErrDeadlineExceeded)) }), nil,
			408, "unreadable", "in time",
		},
		"what is no JSON":                {post("{"), nil, 400, "invalid", "JSON"},
		"nothing":                        {post(""), nil, 400, "invalid", "JSON"},
		"a webhook that went astray":     {post(`{"ref":"refs/heads/main","repository":{"id":1}}`), nil, 400, "invalid", "involvedObject.kind"},
		"no namespace":                   {with(func(e *event.Event) { e.InvolvedObject.Namespace = "" }), nil, 400, "invalid", "namespace"},
		"a namespace that is none":       {with(func(e *event.Event) { e.InvolvedObject.Namespace = "a.b" }), nil, 400, "invalid", "namespace"},
		"a namespace with a capital":     {with(func(e *event.Event) { e.InvolvedObject.Namespace = "Team-a" }), nil, 400, "invalid", "namespace"},
		"a namespace that begins with -": {with(func(e *event.Event) { e.InvolvedObject.Namespace = "-a" }), nil, 400, "invalid", "namespace"},
		"a namespace that ends with -":   {with(func(e *event.Event) { e.InvolvedObject.Namespace = "a-" }), nil, 400, "invalid", "namespace"},
		"the longest namespace":          {with(func(e *event.Event) { e.InvolvedObject.Namespace = strings.Repeat("a", 63) }), nil, 202, "accepted", ""},
		"a namespace that is too long":   {with(func(e *event.Event) { e.InvolvedObject.Namespace = strings.Repeat("a", 64) }), nil, 400, "invalid", "namespace"},
		"no version":                     {with(func(e *event.Event) { e.InvolvedObject.APIVersion = "" }), nil, 202, "accepted", ""},
		"a version with a line end":      {with(func(e *event.Event) { e.InvolvedObject.APIVersion = "a/v1\n" }), nil, 400, "invalid", "apiVersion"},
		"a severity of two lines":        {with(func(e *event.Event) { e.Severity = "a\nb" }), nil, 400, "invalid", "severity"},
		"a reporter of two lines":        {with(func(e *event.Event) { e.ReportingController = "a\nb" }), nil, 400, "invalid", "reporter"},
		"an instance of two lines":       {with(func(e *event.Event) { e.ReportingInstance = "a\x7fb" }), nil, 400, "invalid", "reporter"},
		"a reason that is too long":      {with(func(e *event.Event) { e.Reason = strings.Repeat("a", 1025) }), nil, 400, "invalid", "reason"},
		"a name with a line end":         {with(func(e *event.Event) { e.InvolvedObject.Name = "a\r\nb" }), nil, 400, "invalid", "name"},
		"a kind with a slash":            {with(func(e *event.Event) { e.InvolvedObject.Kind = "a/b" }), nil, 400, "invalid", "kind"},
		"a wildcard for a name":          {with(func(e *event.Event) { e.InvolvedObject.Name = "*" }), nil, 400, "invalid", "name"},
		"a uid with a space":             {with(func(e *event.Event) { e.InvolvedObject.UID = "a b" }), nil, 400, "invalid", "uid"},
		"an action of two lines":         {with(func(e *event.Event) { e.Action = "a\nb" }), nil, 400, "invalid", "action"},
		"a reason of two lines":          {with(func(e *event.Event) { e.Reason = "a\nb" }), nil, 400, "invalid", "reason"},
		"an event of our own":            {request(func(r *http.Request) { r.Header.Set("Via", "1.1 notifier") }), nil, 508, "loop", "sent by notifier"},
		"one that a proxy passed on":     {request(func(r *http.Request) { r.Header.Set("Via", "1.0 fred, 1.1 Notifier (x), 2 p.example.net") }), nil, 508, "loop", "sent by notifier"},
		"one that proxies passed on":     {request(func(r *http.Request) { r.Header["Via"] = []string{"1.0 fred", "1.1 p, HTTP/1.1\tnotifier"} }), nil, 508, "loop", "sent by notifier"},
		"one of a proxy of another name": {request(func(r *http.Request) { r.Header.Set("Via", "1.1 notifier.example.net, 1.1 x (notifier)") }), nil, 202, "accepted", ""},
		"a time of the year 10000":       {post(strings.Replace(posted(nil), "2026-01-02T03:04:05Z", "9999-12-31T23:59:59-00:01", 1)), nil, 400, "invalid", "timestamp"},
		"a time before the year 0":       {post(strings.Replace(posted(nil), "2026-01-02T03:04:05Z", "0000-01-01T00:00:00+23:59", 1)), nil, 400, "invalid", "timestamp"},
		"the last time there is":         {post(strings.Replace(posted(nil), "2026-01-02T03:04:05Z", "9999-12-31T23:59:59Z", 1)), nil, 202, "accepted", ""},
		"a compressed body":              {request(func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }), nil, 415, "encoding", "encoding"},
		"another path":                   {request(func(r *http.Request) { r.URL.Path, r.RequestURI = "/hook/x", "/hook/x" }), nil, 404, "unknown", ""},
		"GET":                            {request(func(r *http.Request) { r.Method = "GET" }), nil, 405, "method", "method"},
		"a bus that fails":               {post(posted(nil)), errors.New("no stream"), 503, "unavailable", "not stored"},
		"an event the bus never takes":   {post(posted(nil)), fmt.Errorf("publish: %w", errBusTooLarge), 413, "too_large", "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			bus := &eventLog{err: tc.err}
			h := newEvents(t, bus, nil)
			resp := do(h, tc.request)
			if got := bodyOf(t, resp); resp.StatusCode != tc.status || !strings.Contains(got, tc.reason) || tc.reason == "" && got != "" {
				t.Errorf("got %d %s, want %d %s", resp.StatusCode, got, tc.status, tc.reason)
			}
			if n := testutil.ToFloat64(h.metrics.posts[tc.result]); n != 1 {
				t.Errorf("counted %v times as %s", n, tc.result)
			}
			if stored := len(bus.records) == 1; stored != (tc.status == 202) {
				t.Errorf("answered %d, stored: %v", tc.status, stored)
			}
			if tc.status == 503 && resp.Header.Get("Retry-After") != "" || tc.status == 405 && resp.Header.Get("Allow") != "POST" {
				t.Errorf("headers %v", resp.Header)
			}
		})
	}
}

// Fails when the handler keeps duplicates itself: a 429 is the stream's answer, and only for an event that it really has.
func TestADuplicateIs429InFluxsForm(t *testing.T) {
	bus := &eventLog{err: errors.New("no stream")}
	h := newEvents(t, bus, nil)
	if resp := do(h, post(posted(nil))); resp.StatusCode != 503 {
		t.Fatalf("not stored: %d, want 503", resp.StatusCode)
	}
	bus.err = nil
	if resp := do(h, post(posted(nil))); resp.StatusCode != 202 {
		t.Fatalf("the retry of what was not stored: %d, want 202", resp.StatusCode)
	}
	resp := do(h, post(posted(func(e *event.Event) { e.Timestamp = e.Timestamp.Add(time.Minute) })))
	reset, err := http.ParseTime(resp.Header.Get("Retry-After"))
	if resp.StatusCode != 429 || err != nil || resp.Header.Get("X-RateLimit-Reset") != resp.Header.Get("Retry-After") ||
		resp.Header.Get("X-RateLimit-Limit") != "1" || resp.Header.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("got %d, headers %v", resp.StatusCode, resp.Header)
	}
	if left := time.Until(reset); left < 4*time.Minute || left > 5*time.Minute {
		t.Errorf("it says to come back in %s, the window is 5 minutes", left)
	}
}

// Fails when the identity is computed from the cleaned metadata, or when cleaning keeps or drops another key.
func TestARecordIsCleanedAfterItsIdentityWasComputed(t *testing.T) {
	bus := &eventLog{}
	h := newEvents(t, bus, nil)
	for _, token := range []string{"1", "2"} {
		body := posted(func(e *event.Event) {
			e.Metadata = map[string]string{
				"kustomize.toolkit.fluxcd.io/revision": "main@sha1:1",
				"kustomize.toolkit.fluxcd.io/commit":   "sha1:1",
				"kustomize.toolkit.fluxcd.io/token":    token,
				"kustomize.toolkit.fluxcd.io/Checksum": "x",
				"kustomize.toolkit.fluxcd.io/digest":   "x",
				"event.toolkit.fluxcd.io/cluster":      "prod",
				"event.toolkit.fluxcd.io/digest":       "the user's own",
				"source.toolkit.fluxcd.io/revision":    "x",
				"event.toolkit.fluxcd.io/large":        strings.Repeat("x", event.MaxMetadata),
				"summary":                              "x",
			}
		})
		if resp := do(h, post(body)); resp.StatusCode != 202 {
			t.Fatalf("token %s: %d", token, resp.StatusCode)
		}
	}
	want := map[string]string{
		"kustomize.toolkit.fluxcd.io/revision": "main@sha1:1", "kustomize.toolkit.fluxcd.io/commit": "sha1:1",
		"event.toolkit.fluxcd.io/cluster": "prod", "event.toolkit.fluxcd.io/digest": "the user's own",
	}
	for _, r := range bus.records {
		if diff := cmp.Diff(want, r.Event.Metadata); diff != "" {
			t.Errorf("metadata (-want +got):\n%s", diff)
		}
	}
}

// Fails when an event of Flux 2.10 is published without its action or its related object, or with a related object that cannot exist.
func TestARelatedObjectIsPublishedIfItMayExist(t *testing.T) {
	bus := &eventLog{}
	h := newEvents(t, bus, nil)
	source := event.ObjectReference{APIVersion: "source.toolkit.fluxcd.io/v1", Kind: "GitRepository", Namespace: "team-a", Name: "app", UID: "uid-2"}
	odd := []*event.ObjectReference{&source, {Kind: "Node", Name: "n1"}}
	for _, change := range []func(*event.ObjectReference){
		func(r *event.ObjectReference) { r.Kind = "" }, func(r *event.ObjectReference) { r.Kind = "a b" },
		func(r *event.ObjectReference) { r.Name = "a\r\nb" }, func(r *event.ObjectReference) { r.Namespace = "Team" },
		func(r *event.ObjectReference) { r.UID = "a b" }, func(r *event.ObjectReference) { r.APIVersion = "a\nb" },
		func(r *event.ObjectReference) { r.FieldPath = "a\nb" }, func(r *event.ObjectReference) { r.ResourceVersion = "\x00" },
	} {
		r := source
		change(&r)
		odd = append(odd, &r)
	}
	for i, related := range odd {
		body := posted(func(e *event.Event) { e.Action, e.RelatedObject, e.Message = "Failed", related, fmt.Sprint(i) })
		if resp := do(h, post(body)); resp.StatusCode != 202 {
			t.Fatalf("%+v: %d", related, resp.StatusCode)
		}
		if i > 1 {
			related = nil
		}
		if got := bus.records[i].Event; got.Action != "Failed" || !cmp.Equal(got.RelatedObject, related) {
			t.Errorf("action %q, related object %+v, want %+v", got.Action, got.RelatedObject, related)
		}
	}
}

// E9: fails when the UID is not compared, when an event without UID counts as known, or when an event that names another UID gets the live
// object's labels.
func TestE9OnlyAnEventWithTheObjectsUIDIsKnown(t *testing.T) {
	labels := map[string]string{"team": "a"}
	for name, tc := range map[string]struct {
		change func(*event.ObjectReference)
		known  bool
		labels map[string]string
	}{
		"the right UID":     {func(*event.ObjectReference) {}, true, labels},
		"another UID":       {func(o *event.ObjectReference) { o.UID = "uid-2" }, false, nil},
		"no UID":            {func(o *event.ObjectReference) { o.UID = "" }, false, labels},
		"another name":      {func(o *event.ObjectReference) { o.Name = "other" }, false, nil},
		"another namespace": {func(o *event.ObjectReference) { o.Namespace = "team-b" }, false, nil},
		"another kind":      {func(o *event.ObjectReference) { o.Kind = "HelmRelease" }, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bus := &eventLog{}
			h := newEvents(t, bus, nil)
			do(h, post(posted(func(e *event.Event) { tc.change(&e.InvolvedObject) })))
			if len(bus.records) != 1 {
				t.Fatal("not stored")
			}
			got := bus.records[0]
			if got.Known != tc.known || !cmp.Equal(got.Labels, tc.labels) {
				t.Errorf("known %v, labels %v; want %v, %v", got.Known, got.Labels, tc.known, tc.labels)
			}
			if got.Source != event.SourcePost || got.Outcome != event.OutcomeFailed || got.Accepted.IsZero() || got.ID == "" {
				t.Errorf("record %+v", got)
			}
		})
	}
}

// Fails when a budget answers 429, which an emitter takes for success and so drops the event. E9: fails when forged events of a namespace
// use up the budget of events about its known objects.
func TestE9ABudgetIs503AndForgersHaveTheirOwn(t *testing.T) {
	bus := &eventLog{}
	h := newEvents(t, bus, func(o *Options) { o.Namespace = limit.Budget{Rate: 0.001, Burst: 2} })
	event := func(uid string, n int) *http.Request {
		return post(posted(func(e *event.Event) { e.InvolvedObject.UID, e.Message = uid, fmt.Sprint(uid, n) }))
	}
	for i, want := range []int{202, 202, 503, 503} {
		resp := do(h, event("forged", i))
		if resp.StatusCode != want || want == 503 && resp.Header.Get("Retry-After") != "" {
			t.Errorf("forged event %d: %d, want %d", i, resp.StatusCode, want)
		}
	}
	if resp := do(h, event("uid-1", 0)); resp.StatusCode != 202 {
		t.Errorf("a true event after the forged: %d, want 202", resp.StatusCode)
	}
}

func TestAnAddressOverItsBudgetIs503BeforeItsBodyIsRead(t *testing.T) {
	h := newEvents(t, &eventLog{}, func(o *Options) { o.Address = limit.Budget{Rate: 0.001, Burst: 1} })
	do(h, post("{"))
	r := post(posted(nil))
	r.Body = http.NoBody
	if resp := do(h, r); resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "" {
		t.Errorf("got %d, want 503", resp.StatusCode)
	}
	r = post(posted(nil))
	r.RemoteAddr = "198.51.100.7:1"
	if resp := do(h, r); resp.StatusCode != 202 {
		t.Errorf("another address: %d, want 202", resp.StatusCode)
	}
}

// T6: with IPv6 the Pods of a node share a /64. Fails when one of them uses up the budget of the controllers on its node.
func TestT6PodsOfOneNodeHaveBudgetsOfTheirOwn(t *testing.T) {
	h := newEvents(t, &eventLog{}, func(o *Options) { o.Address = limit.Budget{Rate: 0.001, Burst: 1} })
	for _, address := range []string{"[fd00:10:244:1::2f]:4567", "[fd00:10:244:1::30]:4567"} {
		r := post(posted(func(e *event.Event) { e.Message = address }))
		r.RemoteAddr = address
		if resp := do(h, r); resp.StatusCode != 202 {
			t.Errorf("%s: %d, want 202", address, resp.StatusCode)
		}
	}
}

func TestAnEventMayHaveThreeMiBOrWhatTheBusTakes(t *testing.T) {
	sized := func(size int) string {
		rest := len(posted(func(e *event.Event) { e.Message = "" }))
		return posted(func(e *event.Event) { e.Message = strings.Repeat("x", size-rest) })
	}
	for name, tc := range map[string]struct {
		bus, size int
		chunked   bool
		status    int
	}{
		"3 MiB":                              {0, limit.MaxBody, false, 202},
		"3 MiB in chunks":                    {0, limit.MaxBody, true, 202},
		"3 MiB and a byte":                   {0, limit.MaxBody + 1, false, 413},
		"3 MiB and a byte in chunks":         {0, limit.MaxBody + 1, true, 413},
		"what a small bus takes":             {20 << 10, 20 << 10, true, 202},
		"a byte more than a small bus takes": {20 << 10, 20<<10 + 1, true, 413},
		"a byte more, as it says":            {20 << 10, 20<<10 + 1, false, 413},
		"exactly one buffer":                 {0, limit.BufferSize, true, 202},
	} {
		t.Run(name, func(t *testing.T) {
			h := newEvents(t, &eventLog{}, func(o *Options) { o.MaxBody, o.Held = tc.bus, limit.MaxBody+1 })
			for range 2 { // the first one's capacity is free for the second
				r := post(sized(tc.size))
				if tc.chunked {
					r.ContentLength = -1
				}
				if resp := do(h, r); resp.StatusCode != tc.status && resp.StatusCode != 429 {
					t.Errorf("got %d, want %d", resp.StatusCode, tc.status)
				}
			}
			if h.held.Len() != 0 {
				t.Error("capacity is still held")
			}
		})
	}
}

func TestAnEventWithoutATimestampHasTheTimeOfItsArrival(t *testing.T) {
	bus := &eventLog{}
	h := newEvents(t, bus, nil)
	begin := time.Now().Truncate(time.Second)
	do(h, post(posted(func(e *event.Event) { e.Timestamp = time.Time{} })))
	if len(bus.records) != 1 || bus.records[0].Event.Timestamp.Before(begin) {
		t.Errorf("records %v", bus.records)
	}
}

func FuzzPost(f *testing.F) {
	f.Add([]byte(posted(nil)))
	f.Add([]byte(`{"involvedObject":{"kind":"A","namespace":"b","name":"c","apiVersion":"/"},"metadata":{"/":"","/token":"x"}}`))
	f.Add([]byte(`{"involvedObject":{"kind":"A","namespace":"-","name":"\u0000"}}`))
	f.Add([]byte(`[]`))
	f.Add([]byte(`{"involvedObject":null,"timestamp":"x"}`))
	f.Add([]byte("\xff\xfe"))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := decodePost(body)
		if err != nil {
			return
		}
		o := e.InvolvedObject
		for _, part := range []string{o.Kind, o.Namespace, o.Name, o.UID, o.APIVersion, e.Reason, e.Severity} {
			if strings.ContainsAny(part, "\r\n\x00") {
				t.Fatalf("admitted %q", part)
			}
		}
		r, _ := newRecord(e, cache{}, time.Unix(1, 0))
		for key := range r.Event.Metadata {
			if !strings.HasPrefix(key, event.MetadataPrefix) && !strings.HasPrefix(key, o.Group()+"/") {
				t.Fatalf("kept %q of group %q", key, o.Group())
			}
		}
	})
}

// Fails when an event is accepted before the objects of its kind are read: it would count as forged, have no labels and trigger nothing.
// Also fails when a Retry-After makes its controller give up before the objects are read.
func TestAnEventOfAKindThatIsNotReadYetIsToBeSentAgain(t *testing.T) {
	log := &eventLog{}
	h := newEvents(t, log, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, post(posted(func(e *event.Event) { e.InvolvedObject.Kind = "Bucket" })))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "" || len(log.records) != 0 {
		t.Errorf("got %d, Retry-After %q, %d published", w.Code, w.Header().Get("Retry-After"), len(log.records))
	}
}
