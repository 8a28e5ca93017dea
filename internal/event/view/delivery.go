package view

import (
	"time"

	"notifier/internal/event"
)

// State is the state of a delivery: pending, sent or dead.
type State string

// The states of a delivery.
const (
	// StatePending says that the delivery waits for its turn, for a retry or for its Provider.
	StatePending State = "pending"
	// StateSent says that the destination accepted the delivery.
	StateSent State = "sent"
	// StateDead says that the delivery was given up and is a dead letter.
	StateDead State = "dead"
)

// Object names the object of an event. Its namespace is the event's.
type Object struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// String returns "Kind/name".
func (o Object) String() string { return o.Kind + "/" + o.Name }

// Delivery is one event for one Alert to one Provider, and its state.
type Delivery struct {
	// ID is the same for every attempt and replay. Destinations that can drop duplicates receive it.
	ID        string `json:"id"`
	Namespace string `json:"namespace"`
	// Alert is empty for a test message.
	Alert    string `json:"alert,omitempty"`
	Provider string `json:"provider"`
	Object   Object `json:"object"`
	// Reason and Severity are those of the event.
	Reason   string `json:"reason"`
	Severity string `json:"severity"`
	State    State  `json:"state"`
	// Time is when the delivery entered its state.
	Time   time.Time `json:"time"`
	Routed time.Time `json:"routed"`
	// Order is the place of the event in the stream of events.
	Order uint64 `json:"order"`
	// Seq is the place of a dead letter among the dead letters, 0 for other deliveries. It is not shown.
	Seq uint64 `json:"-"`
	// Attempts counts the attempts to send it. Replays counts how often it was published again, by a request or after its Provider was
	// mended.
	Attempts int `json:"attempts"`
	Replays  int `json:"replays,omitempty"`
	// Next is the time of a pending delivery's next attempt, zero if unknown.
	Next time.Time `json:"next,omitzero"`
	// Failure is the reason of the last failed attempt or of the dead letter. Class is its class from a small closed set.
	Failure string `json:"failure,omitempty"`
	Class   string `json:"class,omitempty"`
}

// Attempt is one try to send a delivery.
type Attempt = event.Attempt

// DeliveryDetail is a delivery with everything that is kept of it.
type DeliveryDetail struct {
	Delivery
	// Tries lists its attempts, oldest first. Of very many the middle is left out.
	Tries []Attempt `json:"tries"`
	// Message is the event as it was sent, with the metadata of the Alert, nil if the event is no longer kept.
	Message *Event `json:"message,omitempty"`
	// Authored lists the keys of the message's metadata whose values the Alert's author wrote.
	Authored []string `json:"authored,omitempty"`
}
