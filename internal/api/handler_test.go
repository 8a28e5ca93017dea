package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// Fails when an answer of any status may be stored, sniffed, framed or read by another origin.
func TestEveryAnswerHasTheHeadersThatKeepItToItsReader(t *testing.T) {
	w := newWorld(t)
	w.authority.grant("jane", "team-a", reads...)
	for path, status := range map[string]int{
		"/v1/namespaces/team-a/deliveries": 200, "/v1/namespaces/team-b/deliveries": 403, "/v1/namespaces": 200, "/openapi.json": 200,
		"/v1/nothing": 404, "/": 404, "/v1/namespaces/team-a/deliveries/zz": 404, "/v1/namespaces/team-a/deliveries/replay": 404,
		"/v1/namespaces/team-a/deliveries?x=1": 400, "/v1/namespaces/team-a/providers/p/test": 405,
	} {
		got := w.ask("jane", "GET", path, "")
		if got.Code != status {
			t.Errorf("%s: %d %s, want %d", path, got.Code, got.Body, status)
		}
		for name, want := range headers {
			if diff := cmp.Diff(want, got.Header()[name]); diff != "" {
				t.Errorf("%s: %s: %s", path, name, diff)
			}
		}
		for name := range got.Header() {
			if strings.HasPrefix(name, "Access-Control-") || name == "Set-Cookie" {
				t.Errorf("%s: has %s", path, name)
			}
		}
		if got.Header().Get("Content-Type") != "application/json" || !strings.HasPrefix(got.Body.String(), "{") {
			t.Errorf("%s: %v %s", path, got.Header(), got.Body)
		}
	}
	if allow := w.ask("jane", "GET", "/v1/namespaces/team-a/providers/p/test", "").Header().Get("Allow"); allow != "POST" {
		t.Errorf("Allow: %q", allow)
	}
	if allow := w.ask("jane", "DELETE", "/v1/namespaces/team-a/deliveries/a", "").Header().Get("Allow"); allow != "GET" {
		t.Errorf("Allow: %q", allow)
	}
}

// Fails when a page of another site can send a message through a browser, behind a proxy that authenticates the browser's user.
func TestAnotherSiteSendsNothingInAUsersName(t *testing.T) {
	w := newWorld(t)
	w.authority.grant("jane", "team-a", writes...)
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/namespaces/team-a/providers/slack/test", http.NoBody)
	r.Header.Set("Authorization", "Bearer jane")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	got := httptest.NewRecorder()
	w.handler.ServeHTTP(got, r)
	if got.Code != http.StatusForbidden || len(w.store.tests) > 0 {
		t.Errorf("%d, %d tests", got.Code, len(w.store.tests))
	}
}

// Fails when an explanation leaves out the state of a delivery, or shows an event of another namespace.
func TestAnExplanationTellsWhatBecameOfTheDeliveries(t *testing.T) {
	w := newWorld(t)
	w.fill()
	w.authority.grant("jane", "team-a", reads...)
	w.store.deliveries[0].State = view.StateDead
	w.store.decisions = []view.Decision{
		{Alert: "no", Field: "spec.eventSeverity", Why: "it takes errors alone", DeliveryID: "gone"}, {Alert: "yes", Matched: true, DeliveryID: "aa"},
	}
	var got view.Explanation
	w.want(http.StatusOK, "jane", "GET", "/v1/namespaces/team-a/events/bb/explain", &got)
	if len(got.Decisions) != 2 || got.Decisions[0].Delivery != nil || got.Decisions[1].Delivery == nil || got.Decisions[1].Delivery.State != view.StateDead {
		t.Errorf("got %+v", got)
	}
	w.store.records["cc"] = &event.Record{Event: event.Event{InvolvedObject: event.ObjectReference{Namespace: "team-b"}}}
	w.want(http.StatusNotFound, "jane", "GET", "/v1/namespaces/team-a/events/cc/explain", nil)
	w.want(http.StatusNotFound, "jane", "GET", "/v1/namespaces/team-a/events/none/explain", nil)
}

// Fails when the number of Alerts decides how much one explanation reads, or when those that match are not looked up first.
func TestAnExplanationLooksUpABoundedNumberOfDeliveries(t *testing.T) {
	w := newWorld(t)
	w.fill()
	w.authority.grant("jane", "team-a", reads...)
	accepted := time.Date(2026, 7, 1, 8, 0, 0, 0, time.UTC)
	w.store.records["bb"].Accepted = accepted
	for i := range 500 {
		w.store.decisions = append(w.store.decisions, view.Decision{DeliveryID: fmt.Sprint(i)})
	}
	w.store.decisions = append(w.store.decisions, view.Decision{Matched: true, DeliveryID: "aa"})
	var got view.Explanation
	w.want(http.StatusOK, "jane", "GET", "/v1/namespaces/team-a/events/bb/explain", &got)
	if n := len(w.store.ids); n != maxLookups || got.Decisions[500].Delivery == nil || !w.store.accepted.Equal(accepted) {
		t.Errorf("%d deliveries of an event of %s: %+v", n, w.store.accepted, got.Decisions[500])
	}
}

// Fails when a request to replay that selects nothing, or has unknown fields, is taken for a replay of everything. Also fails when
// a valid request is changed on its way to the worker.
func TestAReplayIsOfWhatItsRequestNames(t *testing.T) {
	w := newWorld(t)
	w.authority.grant("jane", "team-a", writes...)
	const path = "/v1/namespaces/team-a/deliveries/replay"
	many := `{"ids":["` + strings.Repeat(`a","`, view.MaxReplay) + `a"]}`
	for body, status := range map[string]int{
		`{}`: 400, `{"ids":[]}`: 400, `{"all":true}`: 400, `[]`: 400, `{"state":"pending"}`: 400, `{"provider":"../x"}`: 400, `{"alert":"A b"}`: 400,
		`{"ids":["\u0000"]}`: 400, `{"state":"dead"}{}`: 400, `{"state":`: 400, many: 400, `{"state":"dead` + strings.Repeat(" ", maxBody) + `"}`: 413,
		`{"since":"yesterday"}`: 400, `null`: 400,
	} {
		if got := w.ask("jane", "POST", path, body); got.Code != status {
			t.Errorf("%.40s: %d %s", body, got.Code, got.Body)
		}
	}
	if got := w.ask("jane", "POST", path, ""); got.Code != http.StatusUnsupportedMediaType {
		t.Errorf("without a type: %d", got.Code)
	}
	if len(w.store.replays) > 0 {
		t.Fatalf("asked for %+v", w.store.replays)
	}
	w.store.result = view.ReplayResult{Replayed: 3, More: true, NotReplayed: 1, Refused: map[string]string{"x": "it waits"}}
	got := w.ask("jane", "POST", path, `{"state":"dead","provider":"slack","since":"2026-07-01T08:00:00Z"}`)
	if want := `{"replayed":3,"more":true,"refused":{"x":"it waits"},"notReplayed":1}`; got.Code != http.StatusOK || got.Body.String() != want {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	want := []view.ReplayRequest{{State: view.StateDead, Provider: "slack", Since: time.Date(2026, 7, 1, 8, 0, 0, 0, time.UTC)}}
	if diff := cmp.Diff(want, w.store.replays); diff != "" {
		t.Error(diff)
	}
}

// Fails when the refusal to replay one delivery is answered as a success.
func TestARefusedReplayOfOneDeliveryIsAnError(t *testing.T) {
	w := newWorld(t)
	w.authority.grant("jane", "team-a", writes...)
	w.store.result = view.ReplayResult{NotReplayed: 1, Refused: map[string]string{"aa": "it waits for its turn"}}
	got := w.ask("jane", "POST", "/v1/namespaces/team-a/deliveries/aa/replay", "")
	if got.Code != http.StatusConflict || got.Body.String() != `{"error":"it waits for its turn"}` {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	w.store.err = view.ErrNoWorker
	got = w.ask("jane", "POST", "/v1/namespaces/team-a/deliveries/aa/replay", "")
	if got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") != "5" {
		t.Errorf("without a worker: %d %v", got.Code, got.Header())
	}
}

// Fails when the answer to a test of a Provider that does not exist speaks of names and IDs.
func TestATestOfNoProviderNamesIt(t *testing.T) {
	w := newWorld(t)
	w.authority.grant("jane", "team-a", writes...)
	w.store.err = view.ErrNotFound
	got := w.ask("jane", "POST", "/v1/namespaces/team-a/providers/slcak/test", "")
	if got.Code != http.StatusNotFound || !strings.Contains(got.Body.String(), "no Provider slcak in the namespace") {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

// Fails when two tests are one request to the worker, which serves each value once.
func TestEachTestIsARequestOfItsOwn(t *testing.T) {
	w := newWorld(t)
	w.authority.grant("jane", "team-a", writes...)
	for range 2 {
		if got := w.ask("jane", "POST", "/v1/namespaces/team-a/providers/slack/test", ""); got.Body.String() != `{"deliveryID":"made"}` {
			t.Errorf("got %s", got.Body)
		}
	}
	if a, b := w.store.tests[0], w.store.tests[1]; a.Provider != "slack" || a.Value == "" || a.Value == b.Value {
		t.Errorf("asked for %+v and %+v", a, b)
	}
	for body, status := range map[string]int{
		`{"provider":"slack","value":"once"}`: 200, `{"value":"once"}`: 200, `{"provider":"other"}`: 400, `{"value":"a b"}`: 400, `{"x":1}`: 400,
	} {
		if got := w.ask("jane", "POST", "/v1/namespaces/team-a/providers/slack/test", body); got.Code != status {
			t.Errorf("%s: %d", body, got.Code)
		}
	}
	if n := len(w.store.tests); n != 4 || w.store.tests[3] != (view.TestRequest{Provider: "slack", Value: "once"}) {
		t.Errorf("asked for %+v", w.store.tests)
	}
}

// Fails when the text of an error that is not known to be safe is shown, or when a panic ends the process or is not counted.
func TestInternalErrorsAreNotShown(t *testing.T) {
	w := newWorld(t)
	var lines bytes.Buffer
	w.handler.log = slog.New(slog.NewTextHandler(&lines, nil))
	w.authority.grant("jane", "team-a", reads...)
	for err, status := range map[error]int{
		errors.New("dial nats://user:password@10.0.0.1"): 503, fmt.Errorf("x: %w", view.ErrBadCursor): 400, view.ErrNotFound: 404,
		fmt.Errorf("read: %w", context.DeadlineExceeded): 503, event.NewError(event.Permanent, "x", "it is suspended", errors.New("password")): 409,
		event.NewError(event.Retry, "x", "it rests", errors.New("password")): 503,
	} {
		w.store.err = err
		got := w.ask("jane", "GET", "/v1/namespaces/team-a/deliveries", "")
		if got.Code != status || strings.Contains(got.Body.String(), "password") {
			t.Errorf("%v: %d %s", err, got.Code, got.Body)
		}
	}
	if line, _, _ := strings.Cut(lines.String(), "\n"); !strings.Contains(line, "a request of the API failed") ||
		!strings.Contains(line, "namespace=team-a") || !strings.Contains(line, "route=/v1/namespaces/{namespace}/deliveries") {
		t.Errorf("the log says %s", lines.String())
	}
	w.handler.service.options.Store = nil
	if got := w.ask("jane", "GET", "/v1/namespaces/team-a/deliveries", ""); got.Code != http.StatusInternalServerError {
		t.Errorf("after a fault: %d", got.Code)
	}
	if n := testutil.ToFloat64(w.handler.metrics.panics); n != 1 {
		t.Errorf("%v faults are counted", n)
	}
}

// Fails when a path becomes a label.
func TestPathsAreNoLabels(t *testing.T) {
	w := newWorld(t)
	w.authority.grant("jane", "team-a", reads...)
	for i := range 50 {
		w.ask("jane", "GET", fmt.Sprintf("/v1/namespaces/team-%d/deliveries/%d", i, i), "")
		w.ask("jane", "GET", fmt.Sprintf("/%d", i), "")
		w.ask("", "PUT", fmt.Sprintf("/v1/namespaces/%d/events", i), "")
	}
	if n := testutil.CollectAndCount(w.handler.metrics.requests); n > 4 {
		t.Errorf("%d series", n)
	}
}

// Fails when the events of a page are as large as their senders make them, or a message is cut within a character.
func TestEventsOfAListAreShort(t *testing.T) {
	w := newWorld(t)
	w.authority.grant("jane", "team-a", reads...)
	w.store.events = []view.Event{
		{ID: "long", Message: strings.Repeat("ü", 20_000), Metadata: map[string]string{"a": strings.Repeat("b", 30_000)}},
		{ID: "short", Message: "m", Metadata: map[string]string{"a": "b"}},
	}
	var got view.Page[view.Event]
	answer := w.want(http.StatusOK, "jane", "GET", "/v1/namespaces/team-a/events", &got)
	if answer.Body.Len() > 2000 || strings.ContainsRune(got.Items[0].Message, '�') || !strings.HasSuffix(got.Items[0].Message, "ü…") {
		t.Errorf("%d bytes: %s", answer.Body.Len(), got.Items[0].Message)
	}
	if got.Items[1].Message != "m" || got.Items[1].Metadata["a"] != "b" {
		t.Errorf("got %+v", got.Items[1])
	}
}

// Fails when a user's own namespace is not the first, or when one without the right is listed. Also fails when one request checks
// many namespaces, or when a result is kept for more than five seconds or not at all.
func TestNamespacesAreThoseInWhichAUserMayListDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 600 {
			w.store.namespaces = append(w.store.namespaces, fmt.Sprintf("n%03d", i))
		}
		w.authority.grant("n007~bot", "n007", reads...)
		w.authority.grant("n007~bot", "n003", reads...)
		w.authority.grant("n007~bot", "n599", reads...)
		ask := func(user string) (got view.Namespaces) {
			w.want(http.StatusOK, user, "GET", "/v1/namespaces", &got)
			return got
		}
		if diff := cmp.Diff(view.Namespaces{Items: []string{"n007", "n003"}, Incomplete: true}, ask("n007~bot")); diff != "" {
			t.Error(diff)
		}
		asked := w.authority.questions()
		if asked > maxChecked+1 {
			t.Errorf("%d questions", asked)
		}
		w.authority.revoke("n007~bot", "n003", "list deliveries")
		ask("n007~bot")
		if w.authority.questions() != asked {
			t.Error("a moment later all is asked about again")
		}
		<-time.After(namespacesFor)
		if got := ask("n007~bot"); len(got.Items) != 1 {
			t.Errorf("%s later: %v", namespacesFor, got.Items)
		}
		w.authority.grant("admin", "", "list deliveries")
		if got := ask("admin"); len(got.Items) != 600 || got.Incomplete {
			t.Errorf("who may in all namespaces is told %d", len(got.Items))
		}
		w.authority.grant("nobody", "", "")
		if got := w.want(http.StatusOK, "nobody", "GET", "/v1/namespaces", nil).Body.String(); got != `{"items":[],"incomplete":true}` {
			t.Errorf("who may nowhere is told %s", got)
		}
	})
}
