package view

import (
	"time"

	"notifier/internal/event"
)

// State is what became of a delivery.
type State string

// The states of a delivery.
const (
	// StatePending says that the delivery waits: for its turn, for a retry, for its Provider.
	StatePending State = "pending"
	// StateSent says that the destination accepted it.
	StateSent State = "sent"
	// StateDead says that it was given up, and is a dead letter.
	StateDead State = "dead"
)

// Object names the object that an event is about. Its namespace is the event's.
type Object struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// String returns "Kind/name".
func (o Object) String() string { return o.Kind + "/" + o.Name }

// Delivery is one event for one Alert to one Provider, and its state.
type Delivery struct {
	// ID is the same over every attempt and replay; destinations that can drop duplicates are given it.
	ID        string `json:"id"`
	Namespace string `json:"namespace"`
	// Alert is empty for a test message.
	Alert    string `json:"alert,omitempty"`
	Provider string `json:"provider"`
	Object   Object `json:"object"`
	// Reason and Severity are the event's.
	Reason   string `json:"reason"`
	Severity string `json:"severity"`
	State    State  `json:"state"`
	// Time is when the delivery came into its state.
	Time   time.Time `json:"time"`
	Routed time.Time `json:"routed"`
	// Order is the place of the event in the stream of events.
	Order uint64 `json:"order"`
	// Attempts counts the tries to send it, Replays how often it was put on its way again by a request or after its Provider was mended.
	Attempts int `json:"attempts"`
	Replays  int `json:"replays,omitempty"`
	// Next is when a pending delivery is tried next, zero when that is not known.
	Next time.Time `json:"next,omitzero"`
	// Failure says why the last attempt failed or why a dead letter was given up, and Class is that from a small closed set.
	Failure string `json:"failure,omitempty"`
	Class   string `json:"class,omitempty"`
}

// Attempt is one try to send a delivery.
type Attempt = event.Attempt

// DeliveryDetail is a delivery with all that is kept of it.
type DeliveryDetail struct {
	Delivery
	// Tries are its attempts, oldest first. Of very many the middle is left out.
	Tries []Attempt `json:"tries"`
	// Message is the event as it was sent, with the metadata of the Alert. It is nil when the event is not kept any more.
	Message *Event `json:"message,omitempty"`
	// Authored are the keys of the message's metadata that the Alert's author wrote.
	Authored []string `json:"authored,omitempty"`
}
