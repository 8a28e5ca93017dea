package limits

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"notifier/test/env"
)

// told returns how often the sink accepted each message.
func (s *fixture) told(sink *env.Sink) map[string]int {
	s.Helper()
	counts := map[string]int{}
	for _, r := range sink.Received() {
		var e struct{ Message string }
		s.Must(json.Unmarshal(r.Body, &e))
		if r.Status/100 == 2 {
			counts[e.Message]++
		}
	}
	return counts
}

// waitTold waits until every message has arrived.
func (s *fixture) waitTold(sink *env.Sink, messages ...string) {
	s.Helper()
	err := env.Eventually(s.Within(time.Minute), func(context.Context) error {
		counts := s.told(sink)
		var missing []string
		for _, m := range messages {
			if counts[m] == 0 {
				missing = append(missing, m)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("%d of %d messages did not come: %s", len(missing), len(messages), strings.Join(missing, ", "))
		}
		return nil
	})
	s.Must(err)
}

// toldOnce fails the test unless the sink accepted exactly these messages, each once.
func (s *fixture) toldOnce(sink *env.Sink, messages ...string) {
	s.Helper()
	want := map[string]bool{}
	for _, m := range messages {
		want[m] = true
	}
	for m, n := range s.told(sink) {
		if !want[m] || n != 1 {
			s.Errorf("%q was told %d times", m, n)
		}
		delete(want, m)
	}
	for m := range want {
		s.Errorf("%q was not told", m)
	}
}
