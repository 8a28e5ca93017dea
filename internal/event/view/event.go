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
	// Source is the event's source: "post" for a controller, "watch" for the object's state.
	Source string `json:"source"`
	// Order is its place in the stream of events.
	Order uint64 `json:"order"`
}

// Decision says whether an Alert matches an event, and names the field that decided.
type Decision struct {
	Alert    string `json:"alert"`
	Provider string `json:"provider"`
	Matched  bool   `json:"matched"`
	// Field is the field of the Alert or of its Provider that decided, such as "spec.eventSources". It is empty if the event matched.
	Field string `json:"field,omitempty"`
	// Why is the reason, as a sentence.
	Why string `json:"why"`
	// DeliveryID is the ID of the delivery that the event became, or would have become.
	DeliveryID string `json:"deliveryID,omitempty"`
	// Delivery is the delivery as far as it is kept, nil if nothing of it is.
	Delivery *Delivery `json:"delivery,omitempty"`
}

// Explanation is an event with the decision of each Alert of its namespace, as the Alert is now.
type Explanation struct {
	Event     Event      `json:"event"`
	Decisions []Decision `json:"decisions"`
}
