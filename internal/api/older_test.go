package api

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// W2. Fails when an answer to a user has anything from before the namespace was made: it was another tenant's then. Also fails when it
// lacks something since.
func TestW2NothingIsShownFromBeforeTheNamespaceWasMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", append(reads, writes...)...)
		made := time.Now().Truncate(time.Second)
		w.authority.made = map[string]time.Time{"team-a": made}
		before, since := made.Add(-time.Minute), made.Add(time.Minute)
		w.store.deliveries = []view.Delivery{
			{ID: "given-up-since", Routed: before, Time: since}, {ID: "old", Routed: before, Time: before}, {ID: "new", Routed: since, Time: since},
		}
		w.store.events = []view.Event{{ID: "old", Accepted: before}, {ID: "new", Accepted: since}}
		for id, at := range map[string]time.Time{"old": before, "new": since} {
			r := &event.Record{ID: id, Accepted: at}
			r.Event.InvolvedObject.Namespace = "team-a"
			w.store.records[id] = r
		}
		for _, path := range []string{"deliveries", "events", "deliveries?since=2000-01-01T00:00:00Z"} {
			got := w.want(http.StatusOK, "jane", "GET", "/v1/namespaces/team-a/"+path, nil).Body.String()
			if strings.Contains(got, `"old"`) || strings.Contains(got, "given-up-since") || !strings.Contains(got, `"new"`) {
				t.Errorf("%s: %s", path, got)
			}
			if !w.store.query.Since.Equal(made) {
				t.Errorf("%s: read since %s", path, w.store.query.Since)
			}
		}
		for path, status := range map[string]int{
			"deliveries/old": 404, "deliveries/given-up-since": 404, "deliveries/new": 200, "events/old/explain": 404, "events/new/explain": 200,
		} {
			w.want(status, "jane", "GET", "/v1/namespaces/team-a/"+path, nil)
		}
		w.ask("jane", "POST", "/v1/namespaces/team-a/deliveries/replay", `{"state":"dead"}`)
		if got := w.store.replays[0].Since; !got.Equal(made) {
			t.Errorf("replayed since %s", got)
		}
		s := w.watch(w.serve(), "jane", "", nil)
		must(t, s.send(w.store.deliveries[0]))
		must(t, s.send(w.store.deliveries[2]))
		if _, _, data := s.next(); !strings.Contains(data, `"new"`) {
			t.Errorf("watched %s", data)
		}
	})
}
