package events

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"notifier/internal/event"
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

// T6, E9: fails when a sender that invents namespaces has lines of each, or when its lines leave none for the events of a namespace's objects.
func TestT6InventedNamespacesShareTheirLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the time stands still
		var lines receivertest.Buffer
		h := newEvents(t, &eventLog{err: errors.New("the bus is away")}, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&lines, nil)) })
		send := func(namespace, uid string) {
			h.ServeHTTP(httptest.NewRecorder(), post(posted(func(e *event.Event) {
				e.InvolvedObject.Namespace, e.InvolvedObject.UID = namespace, uid
			})))
		}
		for i := range 1000 {
			send(fmt.Sprint("invented-", i), "uid-1")
			send("team-a", "invented")
		}
		send("team-a", "uid-1")
		if n := strings.Count(lines.String(), "known=false"); n == 0 || n > 100 {
			t.Errorf("%d lines tell of objects that do not exist", n)
		}
		if !strings.Contains(lines.String(), "known=true") {
			t.Error("no line tells of the event of an object")
		}
	})
}
