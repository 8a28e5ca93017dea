package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"notifier/test/env"
)

// Fails when a body that is no event is answered 202, or when its refusal harms the next one.
func TestAMalformedEventIsRefusedAtTheEventsPort(t *testing.T) {
	s := setUp(t)
	sink := s.AlertedSink()
	event, err := s.Tenant.Event(s.Ctx, "Kustomization", "app", "error", "BuildFailed", "whole", "main@sha1:1")
	s.Must(err)
	whole, err := json.Marshal(event)
	s.Must(err)
	event["involvedObject"].(map[string]any)["namespace"] = ""
	nowhere, err := json.Marshal(event)
	s.Must(err)
	event["involvedObject"].(map[string]any)["namespace"], event["timestamp"] = s.Tenant.Namespace, "9999-12-31T23:59:59-00:01"
	never, err := json.Marshal(event)
	s.Must(err)
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
		"a time that none can keep":   {http.MethodPost, "/", string(never), http.StatusBadRequest},
		"10,000 levels":               {http.MethodPost, "/", strings.Repeat(`{"metadata":`, 10_001), http.StatusBadRequest},
		"another method":              {http.MethodGet, "/", "", http.StatusMethodNotAllowed},
		"a webhook at the wrong door": {http.MethodPost, env.HookPath("t", "app", "x"), "{}", http.StatusNotFound},
	} {
		resp, err := s.Do(s.Ctx, tc.method, s.EventsURL+tc.path, http.Header{"Content-Type": {"application/json"}}, []byte(tc.body))
		s.Must(err)
		s.mustTell(name, resp, tc.status)
		if strings.Contains(resp.Body, "whole") {
			t.Errorf("%s: the answer quotes the body: %s", name, resp.Body)
		}
	}
	resp, err := s.Do(s.Ctx, http.MethodPost, s.EventsURL+"/", nil, whole)
	s.Must(err)
	s.mustTell("an event", resp, http.StatusAccepted)
	s.waitMessages(sink, "whole")
	if n := sink.Count(); n != 1 {
		t.Errorf("%d notifications were sent: %q", n, messages(s, sink))
	}
}

// Fails when a body is cut instead of refused, or when the limit is off by one.
func TestAnEventAbove3MiBIsRefusedAndOneOf3MiBIsDelivered(t *testing.T) {
	s := setUp(t)
	sink := s.AlertedSink()
	event, err := s.Tenant.Event(s.Ctx, "Kustomization", "app", "error", "BuildFailed", "", "main@sha1:1")
	s.Must(err)
	sized := func(size int) []byte {
		event["message"] = ""
		frame, err := json.Marshal(event)
		s.Must(err)
		event["message"] = strings.Repeat("x", size-len(frame))
		body, err := json.Marshal(event)
		s.Must(err)
		return body
	}
	for size, status := range map[int]int{maxBody: http.StatusAccepted, maxBody + 1: http.StatusRequestEntityTooLarge} {
		sent := 0
		got := s.repeated(func() env.Response {
			sent++
			resp, err := s.Do(s.Ctx, http.MethodPost, s.EventsURL+"/", nil, sized(size))
			s.Must(err)
			return resp
		})
		if sent > 1 && status == http.StatusAccepted && got.Status == http.StatusTooManyRequests {
			continue // it was stored after the answer 503
		}
		s.mustTell("an event by its size", got, status)
	}
	sized(maxBody)
	s.waitMessages(sink, event["message"].(string))
	if n := sink.Count(); n != 1 {
		t.Errorf("%d notifications were sent", n)
	}
}
