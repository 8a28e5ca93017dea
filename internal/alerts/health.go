package alerts

import (
	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// health is the health of one Provider, by its UID.
type health struct {
	uid   string
	now   Health
	dirty bool
}

// set records the state, and marks it to be reported if it is news.
func (h *health) set(uid string, s State, reason, message string) {
	is := Health{State: s, Reason: reason, Message: message}
	h.dirty = h.dirty || h.now != is || h.uid != uid
	h.uid, h.now = uid, is
}

func (h *health) succeeded(uid string) {
	h.set(uid, StateOK, ReasonDelivered, "the last notification was accepted")
}

// failed records a failed attempt. While the breaker is open, that is the reason that counts.
func (h *health) failed(uid string, open bool, e *event.Error) {
	reason := ReasonRetrying
	switch {
	case e.Class == event.Permanent:
		reason = ReasonFailed
	case open:
		reason = ReasonBreakerOpen
	}
	message := e.Reason
	if next := provider.Advice(e); next != "" {
		message += "; " + next
	}
	h.set(uid, StateFailing, reason, message)
}
