package api

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// W5. Fails when a page of a slow read is answered to a user whose right, or token, was revoked while it was read: with the four seconds for
// which a right is kept, and the ten that a read may take, fourteen seconds after it has ended.
func TestW5APageOfASlowReadNeedsItsRightAtTheEnd(t *testing.T) {
	of := map[string][]string{
		"deliveries":        {"list deliveries"},
		"deliveries/d1":     {"get deliveries"},
		"events":            {"list events"},
		"events/e1/explain": {"get events", "get deliveries"},
		"webhooks":          {"list webhooks"},
	}
	for path, rights := range of {
		ends := map[string]func(*authority){"the token": func(a *authority) { a.mu.Lock(); defer a.mu.Unlock(); delete(a.tokens, "jane") }}
		for _, right := range rights {
			ends[right] = func(a *authority) { a.revoke("jane", "team-a", right) }
		}
		ends["nothing"] = func(*authority) {}
		for what, end := range ends {
			t.Run(path+", revoked: "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.authority.grant("jane", "team-a", rights...)
					w.store.deliveries = []view.Delivery{{ID: "d1"}}
					w.store.records["e1"] = &event.Record{Event: event.Event{InvolvedObject: event.ObjectReference{Namespace: "team-a"}}}
					w.store.takes = 9 * time.Second
					go func() {
						<-time.After(time.Second)
						end(w.authority)
					}()
					answer := w.ask("jane", http.MethodGet, "/v1/namespaces/team-a/"+path, "")
					if served := answer.Code == http.StatusOK; served != (what == "nothing") {
						t.Errorf("answered %d: %s", answer.Code, answer.Body)
					}
				})
			})
		}
	}
}
