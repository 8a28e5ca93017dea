package event

import "time"

// Delivery is one event on its way to one Provider for one Alert.
type Delivery struct {
	// ID is the same over every attempt and redelivery; destinations that can drop duplicates are given it.
	ID string `json:"id"`
	// Order is the event's place in the stream of events: deliveries of one object to one Provider are sent in this order.
	Order uint64 `json:"order"`
	// Namespace is that of the Alert, the Provider and the event's object alike (invariant E1).
	Namespace string `json:"namespace"`
	Alert     string `json:"alert"`
	AlertUID  string `json:"alertUID"`
	Provider  string `json:"provider"`
	// ProviderUID is empty when the Provider did not exist when the event was routed.
	ProviderUID string `json:"providerUID,omitempty"`
	// Event carries the metadata as the Alert merged it.
	Event Event `json:"event"`
	// Known says that the event is about an object that the cluster has (Record.Known).
	Known bool `json:"known,omitempty"`
	// Routed is when the delivery was first written to the bus.
	Routed time.Time `json:"routed"`
	// Attempts counts the sends that were tried so far, FirstAttempt is the time of the first one.
	Attempts     int       `json:"attempts,omitempty"`
	FirstAttempt time.Time `json:"firstAttempt,omitzero"`
	// LastError is the safe reason of the last failed attempt.
	LastError string `json:"lastError,omitempty"`
	// Parks counts how often the delivery was put back on the schedule; it makes each scheduled message's ID its own.
	Parks int `json:"parks,omitempty"`
	// Recheck says that the delivery may have been sent before, so its ID is looked up in the history first.
	Recheck bool `json:"recheck,omitempty"`
}

// Object is the key of the object whose events keep their order: "kind/namespace/name".
func (d *Delivery) Object() string {
	o := d.Event.InvolvedObject
	return o.Kind + "/" + o.Namespace + "/" + o.Name
}

// Parked is a delivery that waits on the schedule, as far as its subject tells.
type Parked struct {
	ID        string
	Order     uint64
	Namespace string
	Provider  string
	// ObjectKey is ObjectKey of the delivery's object.
	ObjectKey string
}

// Backlog is what stood on the bus for one shard at one moment.
type Backlog struct {
	// Parked are the deliveries that waited on the schedule.
	Parked []Parked
	// Due counts the messages that waited to be handed out or were held. A delivery whose time came just then may be counted
	// here and listed above, never neither.
	Due int
}

// ObjectKey is a short digest of Delivery.Object that is safe as a subject token.
func ObjectKey(object string) string {
	d := newDigest("object")
	d.field(object)
	return d.hex(8)
}
