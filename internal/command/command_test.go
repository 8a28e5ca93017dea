package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/internal/event/view"
)

var dead = view.Delivery{
	ID: "3f1c", Namespace: "team-a", Alert: "all", Provider: "slack", Object: view.Object{Kind: "Kustomization", Name: "apps"}, Reason: "HealthCheckFailed",
	Severity: "error", State: view.StateDead, Time: time.Now().Add(-3 * time.Hour), Attempts: 4, Failure: "the destination answered 503",
}

// Fails when a list leaves out a page, a filter or a column.
func TestAListShowsAllPagesUpToItsLimit(t *testing.T) {
	second := dead
	second.ID, second.Time = "77aa", dead.Time.Add(-time.Hour)
	api := newFakeAPI(t, map[string]any{
		"GET /v1/namespaces/team-a/deliveries?limit=3&provider=slack&state=dead":             view.Page[view.Delivery]{Items: []view.Delivery{dead}, Next: "more"},
		"GET /v1/namespaces/team-a/deliveries?cursor=more&limit=2&provider=slack&state=dead": view.Page[view.Delivery]{Items: []view.Delivery{second}},
	})
	call(t, api, "deliveries", "list", "--state=dead", "--provider=slack", "--limit=3").wants(t,
		"AGE", "3h", "dead", "Kustomization/apps", "HealthCheckFailed", "all", "slack", "3f1c", "77aa", "the destination answered 503")
}

// Fails when a list that the limit cuts looks as if it was whole, or a whole one as if it was cut.
func TestAListThatIsCutSaysSo(t *testing.T) {
	other := dead
	other.Namespace = "team-b"
	api := newFakeAPI(t, map[string]any{
		"GET /v1/namespaces":                            view.Namespaces{Items: []string{"team-a", "team-b"}},
		"GET /v1/namespaces/team-a/deliveries?limit=1":  view.Page[view.Delivery]{Items: []view.Delivery{dead}},
		"GET /v1/namespaces/team-b/deliveries?limit=1":  view.Page[view.Delivery]{Items: []view.Delivery{other}},
		"GET /v1/namespaces/team-c/deliveries?limit=1":  view.Page[view.Delivery]{Items: []view.Delivery{dead}, Next: "more"},
		"GET /v1/namespaces/team-a/deliveries?limit=50": view.Page[view.Delivery]{Items: []view.Delivery{dead}},
	})
	for line, cut := range map[string]bool{
		"deliveries list": false, "deliveries list --limit=1": false, "deliveries list --limit=1 -A": true, "deliveries list --limit=1 -n team-c -o json": true,
	} {
		r := call(t, api, strings.Fields(line)...)
		r.wants(t, dead.ID)
		if strings.Contains(r.notes, "--limit=0 shows all") != cut {
			t.Errorf("%s: notes %q", line, r.notes)
		}
	}
}

// Fails when -A asks for one namespace only, or does not show the namespace of an item.
func TestAllNamespacesAreThoseThatTheCallerMayList(t *testing.T) {
	other := dead
	other.Namespace, other.ID = "team-b", "99ff"
	api := newFakeAPI(t, map[string]any{
		"GET /v1/namespaces":                            view.Namespaces{Items: []string{"team-a", "team-b"}},
		"GET /v1/namespaces/team-a/deliveries?limit=50": view.Page[view.Delivery]{Items: []view.Delivery{dead}},
		"GET /v1/namespaces/team-b/deliveries?limit=50": view.Page[view.Delivery]{Items: []view.Delivery{other}},
	})
	call(t, api, "deliveries", "list", "-A").wants(t, "NAMESPACE", "team-a", "team-b", "3f1c", "99ff")
}

// Fails when a namespace whose items the caller may not list, or that is deleted meanwhile, hides those of the others, is not named, or leaves
// the command a success.
func TestAllNamespacesButThoseThatRefuseAreShown(t *testing.T) {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":"you may not list deliveries"}`, http.StatusForbidden)
	})
	answers := map[string]any{
		"GET /v1/namespaces":                            view.Namespaces{Items: []string{"team-a", "team-b", "team-c", "team-d"}},
		"GET /v1/namespaces/team-a/deliveries?limit=50": refuse,
		"GET /v1/namespaces/team-b/deliveries?limit=50": view.Page[view.Delivery]{Items: []view.Delivery{dead}},
		"GET /v1/namespaces/team-c/deliveries?limit=50": view.Page[view.Delivery]{},
	}
	api := newFakeAPI(t, answers) // that has no team-d
	for _, line := range [][]string{{"deliveries", "list", "-A"}, {"deliveries", "list", "-A", "-o", "json"}} {
		r := call(t, api, line...)
		if !strings.Contains(r.out, dead.ID) {
			t.Errorf("%v: the output lacks the delivery: %s", line, r.out)
		}
		if r.err == nil || !strings.Contains(r.err.Error(), "namespace team-d") || !strings.Contains(r.notes, "namespace team-a: you may not") {
			t.Errorf("%v: error %v, notes %q", line, r.err, r.notes)
		}
	}
	answers["GET /v1/namespaces/team-b/deliveries?limit=50"] = refuse
	if r := call(t, api, "deliveries", "list", "-A"); r.err == nil || r.out != "" || strings.Contains(r.notes, "Nothing found") {
		t.Errorf("where all refuse: error %v, output %q, notes %q", r.err, r.out, r.notes)
	}
	answers["GET /v1/namespaces/team-c/deliveries?limit=50"] = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	})
	if r := call(t, api, "deliveries", "list", "-A"); r.err == nil || !strings.Contains(r.err.Error(), "namespace team-c") {
		t.Errorf("where the API cannot be reached: error %v", r.err)
	}
}

// Fails when the output for programs differs from the API's answer.
func TestTheOutputForProgramsIsWhatTheAPIAnswered(t *testing.T) {
	api := newFakeAPI(t, map[string]any{
		"GET /v1/namespaces/team-a/deliveries?limit=50": view.Page[view.Delivery]{Items: []view.Delivery{dead}},
	})
	r := call(t, api, "deliveries", "list", "-o", "json")
	var page view.Page[view.Delivery]
	if err := json.Unmarshal([]byte(r.out), &page); err != nil || len(page.Items) != 1 || page.Items[0].ID != dead.ID {
		t.Errorf("error %v, output %s", err, r.out)
	}
	call(t, api, "deliveries", "list", "-o", "yaml").wants(t, "id: 3f1c", "state: dead")
	if r := call(t, api, "deliveries", "list", "-o", "xml"); r.err == nil || !strings.Contains(r.err.Error(), "json") {
		t.Errorf("an unknown form gave %v", r.err)
	}
}

// Fails when a text from Git or from a stranger reaches the terminal with characters that control it.
func TestHostileTextControlsNoTerminal(t *testing.T) {
	hostile := dead
	hostile.Object.Name = "\x1b]0;owned\x07\x1b[2Japps"
	hostile.Failure = "a\u202Eb\u009b31m\nsecond line\tand more\u2028x\u200b"
	detail := view.DeliveryDetail{Delivery: hostile, Message: &view.Event{
		Severity: "error", Reason: "\x1b[31m", Message: "line one\r\x1b[1A\nline two", Metadata: map[string]string{"a\x1b": "\u202E"},
	}, Tries: []view.Attempt{{Class: "\x1b", Failure: "\x07"}}}
	api := newFakeAPI(t, map[string]any{
		"GET /v1/namespaces/team-a/deliveries?limit=50": view.Page[view.Delivery]{Items: []view.Delivery{hostile}},
		"GET /v1/namespaces/team-a/deliveries/3f1c":     detail,
		"GET /v1/namespaces/team-a/webhooks?limit=50":   view.Page[view.Webhook]{Items: []view.Webhook{{ID: "\x1b", Result: "accepted", Targets: []string{"\x1b]"}}}},
	})
	for _, line := range [][]string{{"deliveries", "list"}, {"deliveries", "show", "3f1c"}, {"webhooks", "list"}} {
		r := call(t, api, line...)
		r.wants(t)
		if at := strings.IndexFunc(r.out, func(c rune) bool {
			return c != '\n' && c < ' ' || c >= 0x7f && c < 0xa0 || c == '\u202e' || c == '\u2028' || c == '\u200b'
		}); at >= 0 {
			t.Errorf("%v: the output has %q", line, r.out[at:min(len(r.out), at+10)])
		}
	}
}

// Fails when a new item is not shown, when an ended stream is not continued from its end, or when a revoked right is not reported.
func TestAWatchShowsWhatComesAndEndsWithTheRight(t *testing.T) {
	item, err := json.Marshal(dead)
	if err != nil {
		t.Fatal(err)
	}
	var last []string
	api := newFakeAPI(t, map[string]any{
		"GET /v1/namespaces/team-a/deliveries?limit=50": view.Page[view.Delivery]{},
		"GET /v1/namespaces/team-a/deliveries?watch=1": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			if last = append(last, r.Header.Get("Last-Event-ID")); len(last) > 1 {
				http.Error(w, `{"error":"you may not any more"}`, http.StatusForbidden)
				return
			}
			fmt.Fprintf(w, ":\n\nevent: item\nid: 7\ndata: %s\n\nevent: end\ndata: {\"error\":\"its time is over\"}\n\n", item)
		}),
	})
	r := call(t, api, "deliveries", "list", "--watch")
	if !strings.Contains(r.out, "3f1c") || r.err == nil || !strings.Contains(r.err.Error(), "you may not any more") || len(last) != 2 || last[1] != "7" {
		t.Errorf("error %v, last IDs %q, output %s", r.err, last, r.out)
	}
}

// Fails when a watch goes on after the time until which items were asked for.
func TestAWatchHasNoEnd(t *testing.T) {
	api := newFakeAPI(t, nil)
	r := call(t, api, "deliveries", "list", "--watch", "--until=1h")
	if usage, ok := errors.AsType[UsageError](r.err); !ok || !strings.Contains(usage.Error(), "--until") || len(api.asked) > 0 {
		t.Errorf("error %v, %d requests", r.err, len(api.asked))
	}
}

// Fails when an explanation leaves out an Alert, or the field that decided.
func TestAnExplanationNamesTheFieldThatDecided(t *testing.T) {
	api := newFakeAPI(t, map[string]any{
		"GET /v1/namespaces/team-a/events/9b2e/explain": view.Explanation{
			Event: view.Event{Object: dead.Object, Reason: "HealthCheckFailed"},
			Decisions: []view.Decision{
				{Alert: "errors", Provider: "slack", Matched: true, Why: "every field takes the event", Delivery: &dead},
				{Alert: "infos", Provider: "slack", Field: "spec.eventSeverity", Why: "takes errors only"},
			},
		},
	})
	call(t, api, "events", "explain", "9b2e").wants(t, "errors", "yes", "dead 3f1c", "infos", "no", "spec.eventSeverity", "takes errors only")
}

// Fails when a command line that selects nothing requests a replay of everything, or when a request selects more than its command
// line.
func TestAReplayAsksForWhatWasSelected(t *testing.T) {
	var asked []view.ReplayRequest
	more := true
	api := newFakeAPI(t, map[string]any{"POST /v1/namespaces/team-a/deliveries/replay": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request view.ReplayRequest
		_ = json.NewDecoder(r.Body).Decode(&request)
		asked = append(asked, request)
		_ = json.NewEncoder(w).Encode(view.ReplayResult{Replayed: 5, More: more, NotReplayed: 1, Refused: map[string]string{"77aa": "its Alert is gone"}})
		more = false
	})})
	if r := call(t, api, "deliveries", "replay"); r.err == nil || len(asked) > 0 {
		t.Errorf("nothing was selected: error %v, asked %v", r.err, asked)
	}
	if r := call(t, api, "deliveries", "replay", "3f1c", "--state=dead"); r.err == nil || len(asked) > 0 {
		t.Errorf("an ID and a filter: error %v, asked %v", r.err, asked)
	}
	r := call(t, api, "deliveries", "replay", "--state=dead", "--provider=slack")
	if len(asked) != 2 || asked[0].Provider != "slack" || asked[0].State != view.StateDead {
		t.Errorf("asked %+v", asked)
	}
	if !strings.Contains(r.out, "10 deliveries") || !strings.Contains(r.notes, "its Alert is gone") {
		t.Errorf("output %s, notes %s", r.out, r.notes)
	}
}

// Fails when a test's outcome is shown before it is known, when a failure is shown as a success, in any form of the output,
// or when it is not shown when the message is tried again, or where the remedy is.
func TestATestTellsWhatBecameOfIt(t *testing.T) {
	looks := 0
	outcome := view.StateSent
	api := newFakeAPI(t, map[string]any{
		"POST /v1/namespaces/team-a/providers/slack/test": view.TestResult{DeliveryID: "3f1c"},
		"GET /v1/namespaces/team-a/deliveries/3f1c": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if looks++; looks == 1 {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			d := view.DeliveryDetail{Delivery: dead}
			if d.State = outcome; outcome == view.StateSent {
				d.Failure = ""
			} else {
				d.Next = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
			}
			_ = json.NewEncoder(w).Encode(d)
		}),
	})
	call(t, api, "providers", "test", "slack").wants(t, "slack accepted the test message")
	outcome = view.StatePending
	if r := call(t, api, "providers", "test", "slack"); r.err == nil || !strings.Contains(r.err.Error(), "503") ||
		!strings.Contains(r.err.Error(), "tried again at 2026-01-31T12:00:00Z") || !strings.Contains(r.err.Error(), "kubectl -n team-a get provider slack") {
		t.Errorf("a failed test gave %v", r.err)
	}
	for _, format := range formats {
		if r := call(t, api, "providers", "test", "slack", "-o", format); r.err == nil || !strings.Contains(r.out+r.err.Error(), "503") {
			t.Errorf("-o %s: error %v, output %s", format, r.err, r.out)
		}
	}
	call(t, api, "providers", "test", "slack", "--wait=0").wants(t, "on its way", "notifier deliveries show -n team-a 3f1c")
}

// Fails when the reader of a dead letter is not told how to send it again and where to read of its event, or is told to replay a test
// message, which is refused, or a delivery that waits or was sent.
func TestADeadLetterIsShownWithItsRemedy(t *testing.T) {
	letter := view.DeliveryDetail{Delivery: dead, Message: &view.Event{ID: "77aa"}}
	test, sent := letter, letter
	test.Alert = ""
	sent.State = view.StateSent
	api := newFakeAPI(t, map[string]any{
		"GET /v1/namespaces/team-a/deliveries/3f1c": letter,
		"GET /v1/namespaces/team-a/deliveries/test": test,
		"GET /v1/namespaces/team-a/deliveries/sent": sent,
	})
	call(t, api, "deliveries", "show", "3f1c").wants(t, "Event:     77aa\n", "Remedy:    correct the cause, then: notifier deliveries replay -n team-a 3f1c\n")
	call(t, api, "deliveries", "show", "test").wants(t, "then: notifier providers test -n team-a slack\n")
	if r := call(t, api, "deliveries", "show", "sent"); r.err != nil || strings.Contains(r.out, "Remedy") {
		t.Errorf("of a delivery that was sent: %v, %s", r.err, r.out)
	}
}

// Fails when a test message that waits for its turn is told as refused by its destination.
func TestATestThatWaitsForItsTurnIsNoFailure(t *testing.T) {
	waiting := dead
	waiting.State, waiting.Failure = view.StatePending, ""
	api := newFakeAPI(t, map[string]any{
		"POST /v1/namespaces/team-a/providers/slack/test": view.TestResult{DeliveryID: "3f1c"},
		"GET /v1/namespaces/team-a/deliveries/3f1c":       view.DeliveryDetail{Delivery: waiting},
	})
	call(t, api, "providers", "test", "slack", "--wait=1s").wants(t, "on its way", "3f1c")
}

// Fails when a name leads to another path of the API.
func TestANameStaysInItsPlaceOfThePath(t *testing.T) {
	api := newFakeAPI(t, nil)
	call(t, api, "deliveries", "show", "../../../namespaces?x#y")
	if got := api.asked[0].URL.EscapedPath(); got != "/v1/namespaces/team-a/deliveries/..%2F..%2F..%2Fnamespaces%3Fx%23y" {
		t.Errorf("asked for %s", got)
	}
}
