package providertest

import (
	"net/http"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// LoseAnswer sends a failure to a destination twice. The destination executes the first POST and breaks the connection in place of an
// answer. The first attempt must return a retryable error, the second must succeed. The caller checks the state of the destination
// afterwards. build returns the Sender for the destination's address.
func LoseAnswer(t *testing.T, serve http.HandlerFunc, build func(address string) (provider.Sender, error)) {
	t.Helper()
	lost := false
	sink := NewSink(t, func(w http.ResponseWriter, r *http.Request) {
		if serve(w, r); r.Method == http.MethodPost && !lost {
			lost = true
			panic(http.ErrAbortHandler)
		}
	})
	s, err := build(sink.URL)
	if err != nil {
		t.Fatal(err)
	}
	n := Notifications(t)["error"]
	if err := s.Send(t.Context(), n); err == nil || event.AsError(err).Class != event.Retry {
		t.Fatalf("got %v, want a retry", err)
	}
	if err := s.Send(t.Context(), n); err != nil {
		t.Fatalf("the second attempt: %v", err)
	}
}
