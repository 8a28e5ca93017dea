package api

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// W5. Fails when the checks of a watch take longer than three seconds together, while the Kubernetes API answers late: with the four
// for which answers are kept and the three between two checks, a revoked right would last for more than ten.
func TestW5AWatchEndsThoughTheKubernetesAPIAnswersLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		s := w.watch(w.serve(), "jane", "", nil)
		w.authority.mu.Lock()
		w.authority.takes = 2900 * time.Millisecond
		w.authority.mu.Unlock()
		w.authority.revoke("jane", "team-a", "watch deliveries")
		revoked := time.Now()
		if got, _, data := s.next(); got != "error" || !strings.Contains(data, "try again") {
			t.Errorf("got %q %q", got, data)
		}
		if took := time.Since(revoked); took > 6*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
