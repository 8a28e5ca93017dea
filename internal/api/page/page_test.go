package page

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// do sends a request as a browser sends it within the page's own origin.
func (f *fixture) do(t *testing.T, method, target, user string, form url.Values) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if user != "" {
		r.Header.Set("Authorization", "Bearer "+user)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return answered(t, f.handler(t), r)
}

func answered(t *testing.T, h http.Handler, r *http.Request) (*http.Response, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Result(), string(body)
}

// get returns the page at an address for a user.
func (f *fixture) get(t *testing.T, target, user string, status int) string {
	t.Helper()
	resp, body := f.do(t, http.MethodGet, target, user, nil)
	if resp.StatusCode != status {
		t.Fatalf("GET %s as %q: got %d, want %d\n%s", target, user, resp.StatusCode, status, body)
	}
	return body
}

func contains(t *testing.T, body string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(body, w) {
			t.Errorf("the page lacks %q\n%s", w, body)
		}
	}
}

func lacks(t *testing.T, body string, unwanted ...string) {
	t.Helper()
	for _, w := range unwanted {
		if strings.Contains(body, w) {
			t.Errorf("the page has %q\n%s", w, body)
		}
	}
}

// TestEachPageShowsWhatItIsFor fails when a page leaves out its main content.
func TestEachPageShowsWhatItIsFor(t *testing.T) {
	for target, want := range map[string][]string{
		"/":                        {`href="/ns/team-a/deliveries"`},
		"/ns/team-a/deliveries":    {"Kustomization/app", "BuildFailed", "slack-main", "by Alert all", "Dead", "Sent", "Pending", "the channel is archived"},
		"/ns/team-a/deliveries/d1": {"Attempt 3", "HTTP 410", "took 87 ms", "next try after 10s", "Given up", "no such file", "production-eu", "from the Alert"},
		"/ns/team-a/deliveries/d3": {"Waits", "Next try", "in 1 min"},
		"/ns/team-a/events":        {"BuildFailed", "no such file", `href="/ns/team-a/events/e1"`},
		"/ns/team-a/events/e1":     {"Taken by 1 of 2 Alerts", "spec.eventSeverity", "It takes errors only", `href="/ns/team-a/deliveries/d1"`},
		"/ns/team-a/webhooks":      {"GitRepository/app", "72d3162e-cc78-11e3", "the signature does not hold", "214×"},
		"/ns/team-a/health":        {"the channel is archived", "Not ready", "Degraded", "None. A Receiver"},
		"/ns/team-a/deliveries?object=Kustomization%2Fapp": {`data-watch="/v1/namespaces/team-a/deliveries?object=Kustomization%2Fapp&amp;watch=1"`},
	} {
		t.Run(target, func(t *testing.T) { contains(t, newFixture().get(t, target, "viewer", http.StatusOK), want...) })
	}
}

// TestEmptyListsSayWhatToDo fails when a page without items is blank.
func TestEmptyListsSayWhatToDo(t *testing.T) {
	for target, want := range map[string]string{
		"/ns/team-a/deliveries":              "No deliveries yet",
		"/ns/team-a/deliveries?state=dead":   "Widen the filter",
		"/ns/team-a/events":                  "No events yet",
		"/ns/team-a/events?object=Bucket/x":  "Widen the filter",
		"/ns/team-a/webhooks":                "Give the path in the status of a Receiver",
		"/ns/team-a/webhooks?receiver=other": "Widen the filter",
		"/ns/team-a/health":                  "A Provider says where messages go",
	} {
		f := newFixture()
		f.kept["team-a"] = &kept{}
		contains(t, f.get(t, target, "viewer", http.StatusOK), want)
	}
	f := newFixture()
	f.rights["nobody"] = []string{"team-z list deliveries"}
	contains(t, f.get(t, "/", "nobody", http.StatusOK), "No namespace to show")
}

// TestAPageOfNoneThatHasAnOlderOneSaysSo fails when a bounded read that selected nothing looks like the end of the list, or
// when its links leave out a part of the filter.
func TestAPageOfNoneThatHasAnOlderOneSaysSo(t *testing.T) {
	f := newFixture()
	f.kept["team-a"] = &kept{next: "c2"}
	body := f.get(t, "/ns/team-a/deliveries?state=dead&cursor=c1&event=e1&until=1m", "viewer", http.StatusOK)
	contains(t, body, "None among those read", "/ns/team-a/deliveries?cursor=c2&amp;event=e1&amp;state=dead&amp;until=1m",
		`href="/ns/team-a/deliveries?event=e1&amp;state=dead&amp;until=1m"`, `data-watch=""`,
		`<input type="hidden" name="event" value="e1">`, `<input type="hidden" name="until" value="1m">`) // for the next filter
	if got := f.queries[0]; got.Cursor != "c1" || got.State != view.StateDead {
		t.Errorf("the list was read by %+v", got)
	}
}

// TestWithoutATokenThereIsNothingButSignIn fails when a page shows anything without a valid token, or does not report a refused
// token.
func TestWithoutATokenThereIsNothingButSignIn(t *testing.T) {
	f := newFixture()
	for _, target := range []string{"/", "/ns/team-a/deliveries", "/ns/team-a/deliveries/d1", "/ns/none/health", "/nowhere"} {
		body := f.get(t, target, "", http.StatusUnauthorized)
		contains(t, body, "data-signin")
		lacks(t, body, "team-a", "not accepted")
		contains(t, f.get(t, target, "stranger", http.StatusUnauthorized), "The token was not accepted")
	}
	contains(t, f.get(t, "/", "", http.StatusUnauthorized), "kubectl create token &lt;service account&gt; -n &lt;namespace&gt;<")
	f.audiences = []string{"notifier"}
	contains(t, f.get(t, "/", "", http.StatusUnauthorized), "-n &lt;namespace&gt; --audience=notifier<")
	// The field has no name and its form is hidden, so that no browser without the script sends the typed text.
	body := f.get(t, "/", "", http.StatusUnauthorized)
	contains(t, body, "<form data-signin hidden>", "<noscript>")
	if _, field, _ := strings.Cut(body, `<input id="token"`); strings.Contains(field[:strings.Index(field, ">")], "name=") {
		t.Error("the token's field has a name: it would be sent in the address")
	}
}

// TestAnothersNamespaceLooksAsIfItDidNotExist fails when any page reveals to a user without rights whether a namespace exists.
func TestAnothersNamespaceLooksAsIfItDidNotExist(t *testing.T) {
	f := newFixture()
	for _, path := range []string{
		"/deliveries", "/deliveries/d1", "/deliveries/d9", "/events", "/events/e1", "/events/e9", "/webhooks", "/health",
	} {
		theirs := f.get(t, "/ns/team-b"+path, "viewer", http.StatusForbidden)
		none := f.get(t, "/ns/team-x"+path, "viewer", http.StatusForbidden)
		if theirs != none {
			t.Errorf("%s differs:\n%s\n%s", path, theirs, none)
		}
	}
	resp, _ := f.do(t, http.MethodPost, "/ns/team-b/deliveries/d1/replay", "editor", url.Values{})
	if resp.StatusCode != http.StatusForbidden || len(f.replays) != 0 {
		t.Errorf("a replay in a namespace of others: %d, %v", resp.StatusCode, f.replays)
	}
}

// TestActionsAreOfferedOnlyToUsersWithTheRight fails when a user without the right sees a button, or a user with the right does not.
func TestActionsAreOfferedOnlyToUsersWithTheRight(t *testing.T) {
	for target, button := range map[string]string{
		"/ns/team-a/deliveries/d1":                             `action="/ns/team-a/deliveries/d1/replay"`,
		"/ns/team-a/deliveries?state=dead&provider=slack-main": `action="/ns/team-a/deliveries/replay?provider=slack-main&amp;state=dead"`,
		"/ns/team-a/health":                                    `action="/ns/team-a/providers/teams/test"`,
	} {
		contains(t, newFixture().get(t, target, "editor", http.StatusOK), button)
		lacks(t, newFixture().get(t, target, "viewer", http.StatusOK), "<form method=\"post\"", "popover")
	}
	// Nothing is offered for a pending delivery, nor for a list that a replay would not select as it is shown.
	for _, target := range []string{
		"/ns/team-a/deliveries/d3", "/ns/team-a/deliveries?provider=slack-main", "/ns/team-a/deliveries?state=dead",
		"/ns/team-a/deliveries?state=dead&provider=slack-main&object=Kustomization/app",
		"/ns/team-a/deliveries?state=dead&provider=slack-main&event=e1", "/ns/team-a/deliveries?state=dead&provider=slack-main&until=1m",
	} {
		lacks(t, newFixture().get(t, target, "editor", http.StatusOK), "<form method=\"post\"")
	}
}

// TestActionsDoWhatTheySay fails when a POST requests something else than its form says, or does not show the outcome.
func TestActionsDoWhatTheySay(t *testing.T) {
	f := newFixture()
	f.result = view.ReplayResult{Replayed: 1}
	resp, body := f.do(t, http.MethodPost, "/ns/team-a/deliveries/d1/replay", "editor", url.Values{})
	contains(t, body, "Put on its way again")
	if want := (view.ReplayRequest{IDs: []string{"d1"}}); resp.StatusCode != http.StatusOK || !reflect.DeepEqual(f.replays[0], want) {
		t.Errorf("got %d, %+v", resp.StatusCode, f.replays)
	}

	f.result = view.ReplayResult{Replayed: 2, More: true, NotReplayed: 1200, Refused: map[string]string{}}
	for i := range 12 {
		f.result.Refused[fmt.Sprintf("id-%02d", i)] = "its Provider is gone"
	}
	_, body = f.do(t, http.MethodPost, "/ns/team-a/deliveries/replay?provider=slack-main&alert=all&since=1h", "editor", url.Values{})
	contains(t, body, "2 deliveries", "There are more", "id-09: its Provider is gone", "and 1190 more")
	if got := f.replays[1]; got.Provider != "slack-main" || got.Alert != "all" || got.State != view.StateDead || got.Since.IsZero() || got.IDs != nil {
		t.Errorf("replayed %+v", got)
	}

	f.result = view.ReplayResult{NotReplayed: 1, Refused: map[string]string{"d1": "it is on its way"}}
	_, body = f.do(t, http.MethodPost, "/ns/team-a/deliveries/d1/replay", "editor", url.Values{})
	contains(t, body, "Not replayed: it is on its way", `role="alert"`)

	_, body = f.do(t, http.MethodPost, "/ns/team-a/providers/teams/test", "editor", url.Values{})
	contains(t, body, "A test message is on its way through Provider teams", `href="/ns/team-a/deliveries/test-delivery"`)
	if len(f.tests) != 1 || f.tests[0].Provider != "teams" {
		t.Errorf("tested %+v", f.tests)
	}
}

// TestAFailedActionIsShownWhereItWasRequested fails when a failed request hides the page, or does not show that nothing was done.
func TestAFailedActionIsShownWhereItWasRequested(t *testing.T) {
	for target, still := range map[string]string{
		"/ns/team-a/deliveries/d1/replay": "What happened", "/ns/team-a/deliveries/replay?provider=slack-main": "Kustomization/app", "/ns/team-a/providers/teams/test": "Providers",
	} {
		f := newFixture()
		f.refusal = view.ErrNoWorker
		resp, body := f.do(t, http.MethodPost, target, "editor", url.Values{})
		contains(t, body, still, `role="alert"`, "No replica is at work")
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: got %d, want 503", target, resp.StatusCode)
		}
		if resp, _ := f.do(t, http.MethodPost, target, "viewer", url.Values{}); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s as a viewer: got %d, want 403", target, resp.StatusCode)
		}
	}
}

// TestReplayingAllNeedsAProvider fails when a form without fields replays all dead letters of the namespace.
func TestReplayingAllNeedsAProvider(t *testing.T) {
	f := newFixture()
	for _, query := range []string{"", "?provider=", "?provider=UPPER", "?provider=x&object=no-slash"} {
		if resp, _ := f.do(t, http.MethodPost, "/ns/team-a/deliveries/replay"+query, "editor", url.Values{"provider": {"x"}}); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: got %d, want 400", query, resp.StatusCode)
		}
	}
	if len(f.replays) != 0 {
		t.Errorf("replayed %+v", f.replays)
	}
}

// TestAnotherSiteCannotAct fails when a form of another site is served with the credentials that a proxy adds to the browser's
// requests.
func TestAnotherSiteCannotAct(t *testing.T) {
	f := newFixture()
	for _, header := range []http.Header{
		{"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}, {"Origin": {"https://evil.example"}}, {"Origin": {"null"}},
	} {
		for _, target := range []string{"/ns/team-a/deliveries/d1/replay", "/ns/team-a/deliveries/replay", "/ns/team-a/providers/teams/test"} {
			r := httptest.NewRequest(http.MethodPost, target, strings.NewReader("provider=teams"))
			r.Header = header.Clone()
			r.Header.Set("Authorization", "Bearer editor")
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if resp, _ := answered(t, f.handler(t), r); resp.StatusCode != http.StatusForbidden {
				t.Errorf("%s with %v: got %d, want 403", target, header, resp.StatusCode)
			}
		}
	}
	// A GET changes nothing: it leads to the page that has the button.
	for _, target := range []string{"/ns/team-a/deliveries/d1/replay", "/ns/team-a/providers/teams/test"} {
		f.get(t, target, "editor", http.StatusSeeOther)
	}
	const filtered = "/ns/team-a/deliveries?provider=slack-main&state=dead"
	resp, _ := f.do(t, http.MethodGet, "/ns/team-a/deliveries/replay?provider=slack-main&state=dead", "editor", nil)
	if got := resp.Header.Get("Location"); resp.StatusCode != http.StatusSeeOther || got != filtered {
		t.Errorf("a GET of a replay of all leads with %d to %q, want %q", resp.StatusCode, got, filtered)
	}
	if len(f.replays) != 0 || len(f.tests) != 0 {
		t.Errorf("another site replayed %v and tested %v", f.replays, f.tests)
	}
}

// TestEveryAnswerHasThePolicy fails when an answer may run a foreign script, be framed or be stored.
func TestEveryAnswerHasThePolicy(t *testing.T) {
	f := newFixture()
	for target, user := range map[string]string{"/": "viewer", "/ns/team-a/deliveries": "", "/ns/team-b/health": "viewer", "/nowhere": "viewer", "/static/none": ""} {
		resp, body := f.do(t, http.MethodGet, target, user, nil)
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", target, name, got, want)
			}
		}
		lacks(t, body, "style=", "onclick", "<script>", "http://", "https://")
	}
}

// TestAssetsAreKeptUnderTheirOwnAddressAlone fails when a browser would store a file of one version under the address of another.
func TestAssetsAreKeptUnderTheirOwnAddressAlone(t *testing.T) {
	f := newFixture()
	for name, own := range assetURLs {
		for target, want := range map[string]string{string(own): "public, max-age=31536000, immutable", "/static/" + name + "?v=other": "no-store", "/static/" + name: "no-store"} {
			resp, _ := f.do(t, http.MethodGet, target, "", nil)
			if got := resp.Header.Get("Cache-Control"); resp.StatusCode != http.StatusOK || got != want {
				t.Errorf("%s: got %d %q, want 200 %q", target, resp.StatusCode, got, want)
			}
		}
	}
	f.get(t, "/static/..%2fpage.go", "", http.StatusNotFound)
}

// TestAnAnswerWaitsForRoom fails when pages are sent beyond the bytes that may be sent at the same time.
func TestAnAnswerWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, w := newFixture().service(t), httptest.NewRecorder()
		fill(t, service, "viewer")
		ask(t, service, http.MethodGet, "/ns/team-a/deliveries", "viewer", w)
		if w.Code != http.StatusTooManyRequests {
			t.Errorf("answered %d", w.Code)
		}
		body := w.Body.String()
		contains(t, body, "Too many requests", `id="region"`) // without the region the script has no place for a page
		lacks(t, body, "slack-main")
	})
}

// TestAWatchSeesWhatLeavesAState fails when a list of one state, or of a time, would not notice that an item left it.
func TestAWatchSeesWhatLeavesAState(t *testing.T) {
	body := newFixture().get(t, "/ns/team-a/deliveries?state=dead&since=1h&until=1m&event=e1&provider=slack-main", "viewer", http.StatusOK)
	contains(t, body, `data-watch="/v1/namespaces/team-a/deliveries?provider=slack-main&amp;watch=1"`)
}

// TestReceiversAreNotCalledMissingToUsersWithoutTheRight fails when a user without the right is shown that there are no Receivers.
func TestReceiversAreNotCalledMissingToUsersWithoutTheRight(t *testing.T) {
	f := newFixture()
	f.rights["sender"] = []string{"team-a list deliveries"}
	body := f.get(t, "/ns/team-a/health", "sender", http.StatusOK)
	contains(t, body, "slack-main")
	lacks(t, body, "Receiver")
}

// TestAttemptsAreCountedWhereTheMiddleIsLeftOut fails when an attempt has a wrong number.
func TestAttemptsAreCountedWhereTheMiddleIsLeftOut(t *testing.T) {
	f := newFixture()
	d := &f.kept["team-a"].deliveries[0]
	d.Attempts, d.Tries = 30, slices.Repeat(d.Tries[:1], event.MaxTries)
	body := f.get(t, "/ns/team-a/deliveries/d1", "viewer", http.StatusOK)
	contains(t, body, "Attempt 10<", "Attempt 21<", "Attempt 30<", "10 further attempts")
	lacks(t, body, "Attempt 11<", "Attempt 20<")
	d.Attempts = event.MaxTries + 1
	contains(t, f.get(t, "/ns/team-a/deliveries/d1", "viewer", http.StatusOK), "1 further attempt is not kept")
}

// TestProblemsHaveTheStatusAndNoInnards fails when an error has the status of a page, or its text is shown.
func TestProblemsHaveTheStatusAndNoInnards(t *testing.T) {
	for status, err := range map[int]error{
		http.StatusNotFound: view.ErrNotFound, http.StatusBadRequest: view.ErrBadCursor, http.StatusServiceUnavailable: errors.New("nats: secret detail"),
	} {
		f := newFixture()
		f.err = err
		body := f.get(t, "/ns/team-a/deliveries", "viewer", status)
		lacks(t, body, "secret detail")
		if again, may := strings.Contains(body, `href="">Try again</a>`), status == http.StatusServiceUnavailable; again != may { // a reload signs out
			t.Errorf("%d: a link to the page itself: %v, want %v", status, again, may)
		}
	}
	for _, target := range []string{
		"/ns/team-a/deliveries?state=odd", "/ns/team-a/deliveries?since=yesterday", "/ns/team-a/events?object=x", "/ns/team-a/events?object=%zz", "/ns/team-a/deliveries?provider=" + strings.Repeat("a", 300),
	} {
		newFixture().get(t, target, "viewer", http.StatusBadRequest)
	}
	contains(t, newFixture().get(t, "/ns/team-a/deliveries/not-tried-yet", "viewer", http.StatusNotFound), `data-watch="/v1/namespaces/team-a/deliveries?watch=1"`)
	newFixture().get(t, "/ns/team-a/deliveries/"+strings.Repeat("a", 300), "viewer", http.StatusNotFound)
}
