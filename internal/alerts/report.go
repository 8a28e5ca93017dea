package alerts

import (
	"encoding/json"
	"time"
)

// Reporter takes the Health of an object under "kind/namespace/name" to whoever writes its status. The latest value counts. It must
// not block: the router and the shards report while others wait for them.
type Reporter interface {
	Report(key string, value []byte)
}

// Recorder records a Kubernetes Event on an object. It must not block, and limits what one object may cause.
type Recorder interface {
	Event(kind, namespace, name, uid, eventType, reason, message string)
}

// State is what Health comes to.
type State string

// The states of an object.
const (
	StateOK      State = "ok"
	StateFailing State = "failing"
)

// The reasons of a Health and of the Kubernetes Events that go with it.
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

// Health is what this package knows of an Alert or a Provider beyond its spec. Nothing in it is secret.
type Health struct {
	// UID is the object's, so that a report about a deleted one is not shown on its successor.
	UID     string `json:"uid"`
	State   State  `json:"state"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// At is when the object came into this state.
	At time.Time `json:"at"`
	// LastSuccess is when a notification was last accepted by the destination, up to lastSuccessLag old.
	LastSuccess time.Time `json:"lastSuccess,omitzero"`
	// Pending counts the deliveries that wait, on the schedule or in memory.
	Pending int `json:"pending"`
}

func healthKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

func (h Health) encode() []byte {
	b, err := json.Marshal(h)
	if err != nil { // strings, times and a number always encode
		panic(err)
	}
	return b
}
