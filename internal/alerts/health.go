package alerts

import (
	"context"
	"sync"
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
	switch {
	case e.Class == event.Permanent:
		h.set(uid, StateFailing, ReasonFailed, e.Reason, at)
	case open:
		h.set(uid, StateFailing, ReasonBreakerOpen, e.Reason, at)
	default:
		h.set(uid, StateFailing, ReasonRetrying, e.Reason, at)
	}
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

// mailbox keeps the latest report of each Provider until it was passed on, so that no loop waits for the Reporter. It is
// bounded by the number of Providers that deliveries name.
type mailbox struct {
	mu      sync.Mutex
	pending map[string][]byte
	order   []string
	signal  chan struct{}
}

func newMailbox() *mailbox {
	return &mailbox{pending: map[string][]byte{}, signal: make(chan struct{}, 1)}
}

func (m *mailbox) put(key string, value []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, waits := m.pending[key]; !waits {
		m.order = append(m.order, key)
	}
	m.pending[key] = value
	select {
	case m.signal <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() (key string, value []byte, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.order) == 0 {
		return "", nil, false
	}
	key, m.order = m.order[0], m.order[1:]
	value = m.pending[key]
	delete(m.pending, key)
	return key, value, true
}

// lastReports bounds what is told after the end.
const lastReports = time.Second

// run passes reports on until ctx ends, and then those that are left.
func (m *mailbox) run(ctx context.Context, to Reporter) {
	for ctx.Err() == nil {
		m.passOn(ctx, to)
		select {
		case <-m.signal:
		case <-ctx.Done():
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReports)
	defer cancel()
	m.passOn(last, to)
}

func (m *mailbox) passOn(ctx context.Context, to Reporter) {
	for ctx.Err() == nil {
		key, value, ok := m.take()
		if !ok {
			return
		}
		to.Report(ctx, key, value)
	}
}
