package alerts

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

// Health is whether the destination of a Provider takes what is sent, or whether the patterns of an Alert are evaluated in their time. Its
// State is empty while that is not known.
type Health struct {
	State           State
	Reason, Message string
}
