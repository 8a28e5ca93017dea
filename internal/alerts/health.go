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
	// Version is that of the Destination at which an attempt failed, empty otherwise.
	Version string
}

// failing returns the health of a destination after a failed attempt. While the breaker is open, that is the reason that counts.
func failing(dest *Destination, e *event.Error, open bool) Health {
	h := Health{StateFailing, ReasonRetrying, e.Reason, dest.Version}
	switch {
	case e.Class == event.Permanent:
		h.Reason = ReasonFailed
	case open:
		h.Reason = ReasonBreakerOpen
	}
	if next := provider.Advice(e); next != "" {
		h.Message += "; " + next
	}
	return h
}
