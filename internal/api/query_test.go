package api

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event/view"
)

// Fails when a parameter is not passed on, or a time is parsed as a different time.
func TestAQueryIsWhatItsParametersSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for _, tc := range []struct {
			list  view.List
			query string
			want  view.Query
		}{
			{view.Deliveries, "", view.Query{}},
			{
				view.Deliveries, "state=dead&provider=slack&alert=all&object=Kustomization%2Fapp&event=ab&limit=500&cursor=x",
				view.Query{State: view.StateDead, Provider: "slack", Alert: "all", Object: "Kustomization/app", Event: "ab", Limit: 500, Cursor: "x"},
			},
			{view.Webhooks, "receiver=hook&limit=1", view.Query{Receiver: "hook", Limit: 1}},
			{view.Events, "since=1h30m&until=90s", view.Query{Since: now.Add(-90 * time.Minute), Until: now.Add(-90 * time.Second)}},
			{view.Events, "since=7d", view.Query{Since: now.Add(-7 * 24 * time.Hour)}},
			{view.Events, "since=2026-07-01T10:00:00%2B02:00", view.Query{Since: time.Date(2026, 7, 1, 8, 0, 0, 0, time.UTC)}},
			{
				view.Events, "since=0002-01-01T00:00:00Z&until=9999-12-31T23:59:59-23:00",
				view.Query{Since: time.Unix(0, 0).UTC(), Until: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)},
			},
			{view.Events, "watch=1&since=1m&object=a/b", view.Query{Since: now.Add(-time.Minute), Object: "a/b"}},
		} {
			values, err := url.ParseQuery(tc.query)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ParseQuery(tc.list, values)
			if err != nil {
				t.Errorf("%s: %v", tc.query, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: %s", tc.query, diff)
			}
		}
	})
}

// badQueries are parameters that a list does not accept.
var badQueries = map[view.List][]string{
	view.Deliveries: {
		"stat=dead", "state=lost", "state=dead&state=sent", "provider=A", "provider=%00", "provider=" + strings.Repeat("a", 254), "alert=../x",
		"provider=%zz", "state=dead;provider=slack",
		"object=app", "object=/app", "object=Kind/", "event=%22", "receiver=hook", "limit=0", "limit=501", "limit=-1", "limit=1e2",
		"since=yesterday", "since=-1h", "since=0s", "since=d", "since=-1d", "since=1h&until=2h", "since=0000-01-01T00:00:00Z",
		"cursor=" + strings.Repeat("a", 513), "watch=2", "watch=1&until=1h", "watch=1&limit=5", "watch=1&cursor=x", "watch=1&event=ab",
	},
	view.Events:   {"state=dead", "provider=x", "event=ab", "pretty=1"},
	view.Webhooks: {"state=dead", "object=a/b", "alert=x"},
}

// Fails when a misspelt or senseless parameter is ignored.
func TestABadParameterIsRefusedWithWhatToDo(t *testing.T) {
	w := newWorld(t)
	w.authority.grant("jane", "team-a", reads...)
	for list, queries := range badQueries {
		for _, query := range queries {
			got := w.ask("jane", "GET", "/v1/namespaces/team-a/"+string(list)+"?"+query, "")
			if got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), `{"error":"`) {
				t.Errorf("%s?%s: %d %s", list, query, got.Code, got.Body)
			}
		}
	}
	for _, namespace := range []string{"Team", "a_b", "-a", "a-", strings.Repeat("a", 64), "%2e%2e", "a.b"} {
		if got := w.ask("jane", "GET", "/v1/namespaces/"+namespace+"/deliveries", ""); got.Code != http.StatusBadRequest {
			t.Errorf("namespace %s: %d", namespace, got.Code)
		}
	}
}

// FuzzAQueryIsReadOrRefused fails when parameters panic, or when an accepted query is out of bounds.
func FuzzAQueryIsReadOrRefused(f *testing.F) {
	for _, queries := range badQueries {
		for _, q := range queries {
			f.Add(q)
		}
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		for _, l := range []view.List{view.Deliveries, view.Events, view.Webhooks} {
			q, err := ParseQuery(l, values)
			if err == nil && (q.Limit < 0 || q.Limit > view.MaxLimit || len(q.Provider) > maxName || q.Since.Year() < -10000) {
				t.Errorf("%q: %+v", query, q)
			}
		}
	})
}

// Fails when a time that has no form in JSON, once it is in UTC, is answered as a failure of the Store.
func TestTimesBeyondAllThatIsKeptAreTaken(t *testing.T) {
	w := newWorld(t)
	w.authority.grant("jane", "team-a", append(reads, writes...)...)
	got := w.ask("jane", "POST", "/v1/namespaces/team-a/deliveries/replay", `{"state":"dead","until":"9999-12-31T23:59:59-23:00"}`)
	if got.Code != http.StatusOK || w.store.replays[0].Until.UTC().Year() > 9999 {
		t.Errorf("%d, asked for %+v", got.Code, w.store.replays)
	}
}

// Fails when the answer to another method does not name the methods of a path, in any encoding of its segments.
func TestTheAllowHeaderListsThePathsMethods(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]string{"/v1/namespaces/a/events": "GET", "/v1/namespaces/a%2Fb/deliveries/replay": "GET, POST"} {
		if got := w.ask("jane", "DELETE", path, "").Header().Get("Allow"); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
}
