package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"notifier/test/world"
)

// Fails when what is no event is answered 202, or when refusing one harms the next.
func TestWhatIsNoEventIsRefusedAtTheEventsDoor(t *testing.T) {
	s := play(t)
	sink := s.newSink()
	s.must(s.tenant.Object(s.ctx, "Kustomization", "app", nil, ""))
	s.must(s.tenant.Alert(s.ctx, "all", "generic", sink.URL("/"), anyKustomization))
	event, err := s.tenant.Event(s.ctx, "Kustomization", "app", "error", "BuildFailed", "whole", "main@sha1:1")
	s.must(err)
	whole, err := json.Marshal(event)
	s.must(err)
	event["involvedObject"].(map[string]any)["namespace"] = ""
	nowhere, err := json.Marshal(event)
	s.must(err)
	for name, tc := range map[string]struct {
		method, path, body string
		status             int
	}{
		"an empty body":               {http.MethodPost, "/", "", http.StatusBadRequest},
		"text":                        {http.MethodPost, "/", "it failed", http.StatusBadRequest},
		"JSON cut short":              {http.MethodPost, "/", string(whole[:len(whole)/2]), http.StatusBadRequest},
		"JSON and more":               {http.MethodPost, "/", string(whole) + "{", http.StatusBadRequest},
		"a list":                      {http.MethodPost, "/", "[" + string(whole) + "]", http.StatusBadRequest},
		"null":                        {http.MethodPost, "/", "null", http.StatusBadRequest},
		"an object of no namespace":   {http.MethodPost, "/", string(nowhere), http.StatusBadRequest},
		"a field of another type":     {http.MethodPost, "/", `{"involvedObject":"app"}`, http.StatusBadRequest},
		"a time that is none":         {http.MethodPost, "/", strings.Replace(string(whole), `"timestamp":"`, `"timestamp":"x`, 1), http.StatusBadRequest},
		"10,000 levels":               {http.MethodPost, "/", strings.Repeat(`{"metadata":`, 10_001), http.StatusBadRequest},
		"another method":              {http.MethodGet, "/", "", http.StatusMethodNotAllowed},
		"a webhook at the wrong door": {http.MethodPost, world.HookPath("t", "app", "x"), "{}", http.StatusNotFound},
	} {
		resp, err := s.Do(s.ctx, tc.method, s.EventsURL+tc.path, http.Header{"Content-Type": {"application/json"}}, []byte(tc.body))
		s.must(err)
		s.mustTell(name, resp, tc.status)
		if strings.Contains(resp.Body, "whole") {
			t.Errorf("%s: the answer quotes the body: %s", name, resp.Body)
		}
	}
	resp, err := s.Do(s.ctx, http.MethodPost, s.EventsURL+"/", nil, whole)
	s.must(err)
	s.mustTell("an event", resp, http.StatusAccepted)
	s.waitMessages(sink, "whole")
	if n := sink.Count(); n != 1 {
		t.Errorf("%d notifications were sent: %q", n, messages(s, sink))
	}
}

// Fails when a body is cut instead of refused, or when the limit is off by one.
func TestAnEventAbove3MiBIsRefusedAndOneOf3MiBIsDelivered(t *testing.T) {
	s := play(t)
	sink := s.newSink()
	s.must(s.tenant.Object(s.ctx, "Kustomization", "app", nil, ""))
	s.must(s.tenant.Alert(s.ctx, "all", "generic", sink.URL("/"), anyKustomization))
	event, err := s.tenant.Event(s.ctx, "Kustomization", "app", "error", "BuildFailed", "", "main@sha1:1")
	s.must(err)
	sized := func(size int) []byte {
		event["message"] = ""
		frame, err := json.Marshal(event)
		s.must(err)
		event["message"] = strings.Repeat("x", size-len(frame))
		body, err := json.Marshal(event)
		s.must(err)
		return body
	}
	for size, status := range map[int]int{maxBody: http.StatusAccepted, maxBody + 1: http.StatusRequestEntityTooLarge} {
		resp, err := s.Do(s.ctx, http.MethodPost, s.EventsURL+"/", nil, sized(size))
		s.must(err)
		s.mustTell("an event by its size", resp, status)
	}
	sized(maxBody)
	s.waitMessages(sink, event["message"].(string))
	if n := sink.Count(); n != 1 {
		t.Errorf("%d notifications were sent", n)
	}
}
