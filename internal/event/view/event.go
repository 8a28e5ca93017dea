package view

import "time"

// Event is something that happened to an object.
type Event struct {
	ID        string            `json:"id"`
	Namespace string            `json:"namespace"`
	Object    Object            `json:"object"`
	Severity  string            `json:"severity"`
	Reason    string            `json:"reason"`
	Message   string            `json:"message"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	// Time is when the event happened, Accepted when it was accepted here.
	Time     time.Time `json:"time"`
	Accepted time.Time `json:"accepted"`
	// Source is how it came in: "post" from a controller, "watch" from the object's state.
	Source string `json:"source"`
	// Order is its place in the stream of events.
	Order uint64 `json:"order"`
}

// Decision is whether an Alert takes an event, and which of its fields decided.
type Decision struct {
	Alert    string `json:"alert"`
	Provider string `json:"provider"`
	Matched  bool   `json:"matched"`
	// Field is the field of the Alert or of its Provider that decided, such as "spec.eventSources". It is empty when the event was taken.
	Field string `json:"field,omitempty"`
	// Why says it in a sentence.
	Why string `json:"why"`
	// DeliveryID is that of the delivery that the event became, or would have become.
	DeliveryID string `json:"deliveryID,omitempty"`
	// Delivery is what is kept of it, nil when nothing is.
	Delivery *Delivery `json:"delivery,omitempty"`
}

// Explanation is what became of an event: what each Alert of the namespace, as it is now, decides about it.
type Explanation struct {
	Event     Event      `json:"event"`
	Decisions []Decision `json:"decisions"`
}
