package command

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/internal/event/view"
)

// replays returns an API that serves one replay after the other with its answers.
func replays(t *testing.T, answers ...http.HandlerFunc) (*fakeAPI, *[]view.ReplayRequest) {
	t.Helper()
	asked := &[]view.ReplayRequest{}
	serve := func(w http.ResponseWriter, r *http.Request) {
		var request view.ReplayRequest
		_ = json.NewDecoder(r.Body).Decode(&request)
		*asked = append(*asked, request)
		answers[min(len(*asked), len(answers))-1](w, r)
	}
	return newFakeAPI(t, map[string]any{"POST /v1/namespaces/team-a/deliveries/replay": http.HandlerFunc(serve)}), asked
}

func refuses(status int, retryAfter string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"error":"ask again later"}`))
	}
}

func does(result view.ReplayResult) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(result) }
}

// Fails when a temporary refusal ends a replay of which a part is done, or when its progress is not shown. Also fails when
// deliveries that fail again are replayed for ever.
func TestAReplayOfAllThatIsDeadGoesOnByItself(t *testing.T) {
	until := time.Now().UTC().Truncate(time.Millisecond)
	api, asked := replays(t,
		does(view.ReplayResult{Replayed: 1000, More: true, Until: until}), refuses(http.StatusTooManyRequests, "2"),
		refuses(http.StatusServiceUnavailable, "1"), does(view.ReplayResult{Replayed: 7}))
	r := call(t, api, "deliveries", "replay", "--state=dead")
	r.wants(t, "1007 deliveries")
	if !strings.Contains(r.notes, "1000 deliveries are on their way again so far") || !strings.Contains(r.notes, "in 2s: ask again later") {
		t.Errorf("notes %s", r.notes)
	}
	if len(*asked) != 4 || !(*asked)[0].Until.IsZero() || !(*asked)[1].Until.Equal(until) || !(*asked)[3].Until.Equal(until) {
		t.Errorf("asked %+v", *asked)
	}
}

// Fails when one delivery is reported as several, or none as if there was something to wait for.
func TestAReplayOfOneDeliveryOrNoneSaysSo(t *testing.T) {
	api, _ := replays(t, does(view.ReplayResult{Replayed: 1}))
	call(t, api, "deliveries", "replay", "one").wants(t, "1 delivery is on its way again.")
	api, _ = replays(t, does(view.ReplayResult{}))
	call(t, api, "deliveries", "replay", "--state=dead").wants(t, "Nothing that is kept is selected")
	api, _ = replays(t, does(view.ReplayResult{Replayed: 1, More: true}), does(view.ReplayResult{}))
	if r := call(t, api, "deliveries", "replay", "--state=dead"); !strings.Contains(r.notes, "1 delivery is on its way again so far.") {
		t.Errorf("notes %s", r.notes)
	}
}

// Fails when a replay of all before a time is refused, which the API takes, or when it is ignored beside IDs.
func TestAReplayMaySelectByItsEndAlone(t *testing.T) {
	api, asked := replays(t, does(view.ReplayResult{Replayed: 1}))
	call(t, api, "deliveries", "replay", "--until=2026-01-31T12:00:00Z").wants(t, "1 delivery is on its way again.")
	if want := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC); len(*asked) != 1 || !(*asked)[0].Until.Equal(want) || !(*asked)[0].Since.IsZero() {
		t.Errorf("asked %+v", *asked)
	}
	if r := call(t, api, "deliveries", "replay", "one", "--until=1h"); r.err == nil || len(*asked) != 1 {
		t.Errorf("with an ID: asked %d times, error %v", len(*asked), r.err)
	}
}

// Fails when two replays with the same refusals list them in different orders.
func TestRefusalsOfAReplayAreListedInOrder(t *testing.T) {
	refused, want := map[string]string{}, ""
	for id := range 20 {
		refused[fmt.Sprintf("%02d", id)] = "it waits"
		want += fmt.Sprintf("not %02d: it waits\n", id)
	}
	api, _ := replays(t, does(view.ReplayResult{Replayed: 1, NotReplayed: 120, Refused: refused}))
	if r := call(t, api, "deliveries", "replay", "--state=sent"); r.notes != want+"and 100 more\n" {
		t.Errorf("error %v, notes\n%swant\n%s", r.err, r.notes, want)
	}
}

// Fails when an error hides the replays before it, or when a request is repeated of which a part may be done and would be sent
// twice.
func TestAReplayThatEndsEarlySaysWhatItDid(t *testing.T) {
	api, asked := replays(t, does(view.ReplayResult{Replayed: 1000, More: true}), refuses(http.StatusForbidden, "1"))
	r := call(t, api, "deliveries", "replay", "--state=dead")
	if r.err == nil || !strings.Contains(r.out, "1000 deliveries are on their way again") || len(*asked) != 2 {
		t.Errorf("asked %d times, told %q, error %v", len(*asked), r.out, r.err)
	}
	api, asked = replays(t, refuses(http.StatusServiceUnavailable, "1"))
	if r := call(t, api, "deliveries", "replay", "--since=1h"); r.err == nil || len(*asked) != 1 {
		t.Errorf("asked %d times, error %v", len(*asked), r.err)
	}
	api, asked = replays(t, refuses(http.StatusTooManyRequests, ""))
	if r := call(t, api, "deliveries", "replay", "--state=dead"); r.err == nil || len(*asked) != 1 {
		t.Errorf("asked %d times, error %v", len(*asked), r.err)
	}
}

// Fails when a script is told of success though some of the deliveries that it names or selects were not replayed.
func TestAReplayFailsIfADeliveryIsRefused(t *testing.T) {
	for _, selects := range [][]string{{"one", "two", "three"}, {"--provider=slack", "--state=dead"}, {"--since=1h"}} {
		api, _ := replays(t, does(view.ReplayResult{Replayed: 2, NotReplayed: 1, Refused: map[string]string{"three": "it waits"}}))
		r := call(t, api, append([]string{"deliveries", "replay"}, selects...)...)
		if r.err == nil || !strings.Contains(r.err.Error(), "1 of 3") || !strings.Contains(r.out, "2 deliveries are on their way again") || r.notes != "not three: it waits\n" {
			t.Errorf("%v: error %v, output %s, notes %s", selects, r.err, r.out, r.notes)
		}
	}
}

// Fails when the form of the output decides whether a replay that replayed nothing is a failure.
func TestAReplayOfNothingFailsInEachForm(t *testing.T) {
	for _, format := range formats {
		api, _ := replays(t, does(view.ReplayResult{NotReplayed: 1, Refused: map[string]string{"one": "it waits"}}))
		r := call(t, api, "deliveries", "replay", "one", "-o", format)
		if r.err == nil || !strings.Contains(r.out+r.notes, "it waits") {
			t.Errorf("-o %s: error %v, output %s, notes %s", format, r.err, r.out, r.notes)
		}
	}
}

// Fails when a list ends because the API is busy.
func TestAListWaitsForItsTurn(t *testing.T) {
	looks := 0
	serve := func(w http.ResponseWriter, r *http.Request) {
		if looks++; looks == 1 {
			refuses(http.StatusTooManyRequests, "1")(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(view.Page[view.Delivery]{Items: []view.Delivery{dead}})
	}
	api := newFakeAPI(t, map[string]any{"GET /v1/namespaces/team-a/deliveries?limit=50": http.HandlerFunc(serve)})
	r := call(t, api, "deliveries", "list")
	r.wants(t, "3f1c")
	if r.notes != "" {
		t.Errorf("notes %s", r.notes)
	}
}
