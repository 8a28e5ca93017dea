package api

import (
	"bufio"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event/view"
)

// Fails when a watch names a later place than the store has reached: a client that returns with it would miss what is read from the store
// late. Also fails when a watch of a store that stands still lasts, or ends without a reason.
func TestAWatchOfAStoreThatStandsStillStaysInItsPlaceAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		w.store.still = true
		s, begun := w.open(w.serve(), "jane", "", nil), time.Now()
		data := ""
		time.AfterFunc(20*time.Second, func() { _ = s.send(view.Delivery{ID: "of another stream", Time: time.Now()}) })
		for lines := bufio.NewScanner(s.resp.Body); lines.Scan() && time.Since(begun) < 10*time.Minute; {
			if id, is := strings.CutPrefix(lines.Text(), "id: "); is && id != idOfTime(begun) {
				t.Errorf("after %s the watch is at %s, and the store at %s", time.Since(begun), id, idOfTime(begun))
			}
			if text, is := strings.CutPrefix(lines.Text(), "data: "); is {
				data = text
			}
		}
		if took := time.Since(begun); took > 90*time.Second || !strings.Contains(data, "cannot be read") {
			t.Errorf("it ended after %s with %q", took, data)
		}
	})
}
