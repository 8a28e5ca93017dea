package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"notifier/test/env"
)

// E3 without a crash: only deliveries that were refused, or whose answer was lost, are repeated, under their first ID.
// Fails when an attempt makes an ID of its own, when two events share one, or when an accepted delivery is sent again.
func TestE3ARepeatHasTheFirstOnesIDAndWhatWasTakenIsNotRepeated(t *testing.T) {
	s := setUp(t)
	sink := s.NewSink()
	s.Must(s.Tenant.Alert(s.Ctx, "all", "generic", sink.URL("/"), env.AnyKustomization))
	var lost, refused atomic.Bool
	sink.AnswerWith(func(r env.Received) env.Answer {
		switch body := string(r.Body); {
		case strings.Contains(body, "the answer is lost") && lost.CompareAndSwap(false, true):
			return env.Answer{Drop: true}
		case strings.Contains(body, "it is refused") && refused.CompareAndSwap(false, true):
			return env.Answer{Status: http.StatusServiceUnavailable}
		}
		return env.Answer{}
	})
	times := map[string]int{"it is taken": 1, "the answer is lost": 2, "it is refused": 2}
	for message := range times {
		name := strings.ReplaceAll(message, " ", "-")
		s.Must(s.Tenant.Object(s.Ctx, "Kustomization", name, nil, ""))
		s.post(s.Tenant, name, "info", "ReconciliationSucceeded", message, "main@sha1:1", http.StatusAccepted)
	}
	_, err := sink.Wait(s.Within(time.Minute), func(all []env.Received) bool { return len(all) >= 5 })
	s.Must(err)
	s.stillOnly(sink, 5)

	ids := map[string]string{} // by message
	owner := map[string]string{}
	came := map[string]int{}
	for _, r := range sink.Received() {
		var e struct{ Message string }
		s.Must(json.Unmarshal(r.Body, &e))
		id := r.Header.Get("Idempotency-Key")
		if id == "" {
			t.Errorf("%q came without a delivery ID", e.Message)
		}
		if first, again := ids[e.Message]; again && first != id {
			t.Errorf("%q came under two delivery IDs, %s and %s", e.Message, first, id)
		}
		if other, taken := owner[id]; taken && other != e.Message {
			t.Errorf("%q and %q came under one delivery ID", other, e.Message)
		}
		ids[e.Message], owner[id] = id, e.Message
		came[e.Message]++
	}
	for message, n := range times {
		if came[message] != n {
			t.Errorf("%q came %d times, want %d", message, came[message], n)
		}
	}
}
