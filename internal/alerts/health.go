package alerts

import (
	"time"

	"notifier/internal/event"
)

const (
	// lastSuccessLag is how often the time of the last success is told.
	lastSuccessLag = 15 * time.Second
	// reportGap is the least time between two reports on one Provider.
	reportGap = 2 * time.Second
	// reportAgain is how often a failing state is told anew, with the number of deliveries that wait.
	reportAgain = time.Minute
)

// health follows one Provider.
type health struct {
	now      Health
	reported time.Time
	dirty    bool
}

// set notes the state, and that it is to be told if it is news.
func (h *health) set(uid string, s State, reason, message string, at time.Time) {
	n := &h.now
	if n.State != s || n.UID != uid {
		n.At = at
	}
	if n.State != s || n.Reason != reason || n.Message != message || n.UID != uid {
		h.dirty = true
	}
	n.UID, n.State, n.Reason, n.Message = uid, s, reason, message
}

func (h *health) succeeded(uid string, at time.Time) {
	h.set(uid, StateOK, ReasonDelivered, "the last notification was accepted", at)
	h.now.LastSuccess = at
	h.dirty = h.dirty || at.Sub(h.reported) >= lastSuccessLag
}

// failed notes a failed attempt. While the breaker is open, that is the reason that counts.
func (h *health) failed(uid string, open bool, e *event.Error, at time.Time) {
	reason := ReasonRetrying
	switch {
	case e.Class == event.Permanent:
		reason = ReasonFailed
	case open:
		reason = ReasonBreakerOpen
	}
	message := e.Reason
	if next := advice(e); next != "" {
		message += "; " + next
	}
	h.set(uid, StateFailing, reason, message, at)
}

// due returns the report to send, if there is one, and else when to ask again, zero for never.
func (h *health) due(pending int, now time.Time) (report []byte, again time.Time) {
	if h.now.State == StateFailing && now.Sub(h.reported) >= reportAgain {
		h.dirty = true
	}
	if !h.dirty {
		return nil, time.Time{}
	}
	if next := h.reported.Add(reportGap); next.After(now) {
		return nil, next
	}
	h.dirty, h.reported = false, now
	out := h.now
	out.Pending = pending
	out.At, out.LastSuccess = out.At.UTC(), out.LastSuccess.UTC()
	return out.encode(), time.Time{}
}
