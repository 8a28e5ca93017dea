package events

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/receivertest"
)

// Fails when the line about a refused event does not name its sender: an address over its budget is refused before its event is read, so
// that the line has nothing else.
func TestARefusedEventIsLoggedWithTheAddressOfItsSender(t *testing.T) {
	var lines receivertest.Buffer
	h := newEvents(t, &eventLog{}, func(o *Options) {
		o.Address, o.Log = limit.Budget{Rate: 0.001, Burst: 1}, slog.New(slog.NewTextHandler(&lines, nil))
	})
	for range 2 {
		r := post(posted(nil))
		r.RemoteAddr = "10.1.2.3:4567"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusServiceUnavailable && !strings.Contains(lines.String(), "client=10.1.2.3 result=over_budget") {
			t.Errorf("log: %s", lines.String())
		}
	}
	if lines.Len() == 0 {
		t.Error("nothing is logged")
	}
	r := post(posted(nil))
	r.RemoteAddr = "[fd00:10:244:1::2f]:4567"
	for range 2 {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if !strings.Contains(lines.String(), "client=fd00:10:244:1::2f result=over_budget") {
		t.Errorf("by IPv6: %s", lines.String())
	}
}
