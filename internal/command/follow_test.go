package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"notifier/internal/event/view"
)

// told returns an item as a watch sends it.
func told(t *testing.T, id string, d view.Delivery) string {
	t.Helper()
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("event: item\nid: %s\ndata: %s\n\n", id, data)
}

// Fails when an item between the list and the watch is missed, or when an item in both is shown twice. Fails when a watch that
// missed more than the API sends hangs or does not report it. Fails when an item that the API sends again is shown again.
func TestAWatchShowsEachItemOnce(t *testing.T) {
	between, later := dead, dead
	between.ID, later.ID = "77aa", "99ff"
	var asked []string
	refuse := func(w http.ResponseWriter, status int) { http.Error(w, `{"error":"no more"}`, status) }
	api := newFakeAPI(t, map[string]any{
		"GET /v1/namespaces/team-a/deliveries?limit=50": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked = append(asked, "list"); len(asked) != 2 {
				t.Errorf("asked %q", asked)
			}
			_ = json.NewEncoder(w).Encode(view.Page[view.Delivery]{Items: []view.Delivery{dead}})
		}),
		"GET /v1/namespaces/team-a/deliveries?watch=1": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			asked = append(asked, "watch since "+r.Header.Get("Last-Event-ID"))
			switch len(asked) {
			case 1:
				fmt.Fprint(w, "id: 6\n\n", told(t, "7", dead), told(t, "8", between))
				_ = http.NewResponseController(w).Flush()
			case 3:
				refuse(w, http.StatusGone)
			case 4:
				fmt.Fprint(w, told(t, "8", between), told(t, "9", later))
			default:
				refuse(w, http.StatusForbidden)
			}
		}),
	})
	r := call(t, api, "deliveries", "list", "--watch")
	if want := []string{"watch since ", "list", "watch since 8", "watch since ", "watch since 9"}; fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	for _, id := range []string{dead.ID, between.ID, later.ID} {
		if n := strings.Count(r.out, id); n != 1 {
			t.Errorf("%s is shown %d times:\n%s", id, n, r.out)
		}
	}
	if r.err == nil || !strings.Contains(r.err.Error(), "no more") || !strings.Contains(r.notes, "left out") {
		t.Errorf("error %v, notes %s", r.err, r.notes)
	}
}

// Fails when a watch of more namespaces than the API allows one user waits silently, or when a refused watch is retried for ever.
func TestAWatchThatCannotBeginSaysSo(t *testing.T) {
	many := view.Namespaces{Items: []string{"team-a"}}
	for i := range maxWatched {
		many.Items = append(many.Items, fmt.Sprint("team-", i))
	}
	answers := map[string]any{"GET /v1/namespaces": many}
	for _, namespace := range many.Items {
		answers["GET /v1/namespaces/"+namespace+"/deliveries?limit=50"] = view.Page[view.Delivery]{}
		answers["GET /v1/namespaces/"+namespace+"/deliveries?watch=1"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":"too many"}`, http.StatusTooManyRequests)
		})
	}
	api := newFakeAPI(t, answers)
	for _, line := range [][]string{{"deliveries", "list", "-A", "--watch"}, {"deliveries", "list", "--watch"}} {
		if r := call(t, api, line...); r.err == nil {
			t.Errorf("%v: output %s", line, r.out)
		}
	}
}

// Fails when a replay that ended early hides how many deliveries were replayed, or that there are others.
func TestAReplayThatEndsEarlySaysWhatWasDone(t *testing.T) {
	asked := 0
	api := newFakeAPI(t, map[string]any{"POST /v1/namespaces/team-a/deliveries/replay": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 3 {
			http.Error(w, `{"error":"ask again in ten seconds"}`, http.StatusTooManyRequests)
			return
		}
		_ = json.NewEncoder(w).Encode(view.ReplayResult{Replayed: 1000, More: true})
	})})
	r := call(t, api, "deliveries", "replay", "--state=dead", "--provider=slack")
	if !strings.Contains(r.out, "2000 deliveries") || r.err == nil || !strings.Contains(r.err.Error(), "ask again in ten seconds") {
		t.Errorf("error %v, output %s", r.err, r.out)
	}
}

// Fails when an API that is briefly busy hides the outcome of a test message, or when the delivery is not found before it was tried.
func TestATestsOutcomeOutlastsABusyAPI(t *testing.T) {
	looks := 0
	busy := []int{http.StatusNotFound, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	api := newFakeAPI(t, map[string]any{
		"POST /v1/namespaces/team-a/providers/slack/test": view.TestResult{DeliveryID: "3f1c"},
		"GET /v1/namespaces/team-a/deliveries/3f1c": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if looks++; looks <= len(busy) {
				w.WriteHeader(busy[looks-1])
				return
			}
			_ = json.NewEncoder(w).Encode(view.DeliveryDetail{Delivery: view.Delivery{ID: "3f1c", State: view.StateSent}})
		}),
	})
	call(t, api, "providers", "test", "slack").wants(t, "slack accepted the test message")
}

// Fails when a watch of all namespaces ends without a word where there is none that the caller may list.
func TestAWatchOfNoNamespaceSaysSo(t *testing.T) {
	api := newFakeAPI(t, map[string]any{"GET /v1/namespaces": view.Namespaces{Items: []string{}}})
	if r := call(t, api, "deliveries", "list", "-A", "--watch"); r.err != nil || !strings.Contains(r.notes, "Nothing found") {
		t.Errorf("error %v, output %q, notes %q", r.err, r.out, r.notes)
	}
}

// Fails when the outcome of a test is not asked for again after a connection that broke, or a proxy without the API: the user would send
// another message. Also fails when a refusal hides that the message is on its way.
func TestATestsOutcomeOutlastsABadNetwork(t *testing.T) {
	sent := view.DeliveryDetail{Delivery: view.Delivery{ID: "3f1c", State: view.StateSent}}
	looks, refused := 0, false
	api := newFakeAPI(t, map[string]any{
		"POST /v1/namespaces/team-a/providers/slack/test": view.TestResult{DeliveryID: "3f1c"},
		"GET /v1/namespaces/team-a/deliveries/3f1c": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			switch looks++; {
			case refused:
				http.Error(w, `{"error":"you may not get deliveries"}`, http.StatusForbidden)
			case looks < 4:
				panic(http.ErrAbortHandler)
			case looks == 4:
				w.WriteHeader(http.StatusBadGateway)
			default:
				_ = json.NewEncoder(w).Encode(sent)
			}
		}),
	})
	call(t, api, "providers", "test", "slack").wants(t, "slack accepted the test message")
	refused = true
	if r := call(t, api, "providers", "test", "slack"); r.err == nil || !strings.Contains(r.err.Error(), "3f1c") ||
		!strings.Contains(r.err.Error(), "you may not get deliveries") {
		t.Errorf("error %v", r.err)
	}
}

// Fails when a caller who stops a watch that has not begun, by Ctrl-C, is shown a fault of the program.
func TestAWatchThatIsStoppedBeforeItBeginsEndsWell(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	api := newFakeAPI(t, map[string]any{
		"GET /v1/namespaces/team-a/deliveries?limit=50": view.Page[view.Delivery]{},
		"GET /v1/namespaces/team-a/deliveries?watch=1": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			stop()
			<-r.Context().Done()
		}),
	})
	if r := callAt(ctx, t, api, "deliveries", "list", "--watch"); r.err != nil || r.out != "" {
		t.Errorf("error %v, output %q", r.err, r.out)
	}
}

// Fails when a caller who stops a watch while the list before it is read is told of an error.
func TestAWatchThatIsStoppedWhileItListsEndsWell(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	api := newFakeAPI(t, map[string]any{
		"GET /v1/namespaces/team-a/deliveries?limit=50": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			stop()
			<-r.Context().Done()
		}),
		"GET /v1/namespaces/team-a/deliveries?watch=1": "id: 1\n\n",
	})
	if r := callAt(ctx, t, api, "deliveries", "list", "--watch"); r.err != nil || r.out != "" {
		t.Errorf("error %v, output %q", r.err, r.out)
	}
}
