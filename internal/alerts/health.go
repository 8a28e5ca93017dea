package alerts

import (
	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// Recorder records Kubernetes Events on objects. It must not block, and it limits the number of Events that one object may cause.
type Recorder interface {
	Event(kind, namespace, name, uid, eventType, reason, message string)
}

// State is the state of a Health.
type State string

// The states of an object.
const (
	StateOK      State = "ok"
	StateFailing State = "failing"
)

// The reasons of a Health and of its Kubernetes Events.
const (
	// On a Provider.
	ReasonDelivered        = "Delivered"
	ReasonRetrying         = "DeliveryRetrying"
	ReasonFailed           = "DeliveryFailed"
	ReasonBreakerOpen      = "DestinationUnavailable"
	ReasonProviderNotReady = "ProviderNotReady"
	ReasonProviderNotFound = "ProviderNotFound"
	ReasonSuspended        = "Suspended"
	ReasonGivenUp          = "DeliveryGivenUp"
	// On an Alert.
	ReasonPatternsTimed    = "PatternsTooExpensive"
	ReasonPatternsInTime   = "PatternsInTime"
	ReasonDispatchFailed   = "NotificationDispatchFailed"
	ReasonMetadataConflict = "MetadataAppendFailed"
)

// Kubernetes Event types and the kinds that are reported on.
const (
	warning      = "Warning"
	kindAlert    = "Alert"
	kindProvider = "Provider"
)

// Health is whether a Provider's destination accepts its deliveries, or whether an Alert's patterns are evaluated in time. Its State is
// empty while that is not known.
type Health struct {
	State           State
	Reason, Message string
}

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
