package event

import (
	"strconv"
	"time"
)

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
	// Authored are the keys of the metadata whose values the Alert's author wrote, sorted. All else comes from objects and controllers, and
	// through them from Git, tools and whoever reaches the events endpoint.
	Authored []string `json:"authored,omitempty"`
	// Known says that the event is about an object that the cluster has and is not doubted (Record.Known, Record.Doubted).
	Known bool `json:"known,omitempty"`
	// Routed is when the event was routed.
	Routed time.Time `json:"routed"`
	// Attempts counts the sends that were tried so far, FirstAttempt is the time of the first one.
	Attempts     int       `json:"attempts,omitempty"`
	FirstAttempt time.Time `json:"firstAttempt,omitzero"`
	// LastError is the safe reason of the last failed attempt.
	LastError string `json:"lastError,omitempty"`
	// Reschedules counts how often the delivery was put back on the schedule; it makes each scheduled message's ID its own.
	Reschedules int `json:"parks,omitempty"`
	// Replays counts how often the delivery was published anew after it had ended, and Replayed is when it last was.
	Replays  int       `json:"replays,omitempty"`
	Replayed time.Time `json:"replayed,omitzero"`
	// Again says that the destination had taken the delivery before it was replayed: only a record of this replay, or of a later one, says
	// that there is nothing left to send.
	Again bool `json:"again,omitempty"`
	// Destination is the version of the Provider's configuration that the delivery was last meant for.
	Destination string `json:"destination,omitempty"`
	// Tries are the attempts that failed, oldest first, at most MaxTries of them. Once the delivery is sent the last one is that which the
	// destination accepted, if any failed before it.
	Tries []Attempt `json:"tries,omitempty"`
	// Took is how long the attempt took that the destination accepted, zero until then.
	Took time.Duration `json:"-"`
	// Test says that the delivery is a message that was asked for to test the Provider. It has no Alert.
	Test bool `json:"test,omitempty"`
	// Recheck says that the delivery may have been sent before, so its ID is looked up in the history first.
	Recheck bool `json:"recheck,omitempty"`
}

// Run identifies the delivery as it was published for the time that Replays counts. It is the ID until the first replay.
func (d *Delivery) Run() string { return RunOf(d.ID, d.Replays) }

// RunOf is Run of a delivery of which only the ID and Replays are known.
func RunOf(id string, replays int) string {
	if replays == 0 {
		return id
	}
	return id + "#replay" + strconv.Itoa(replays)
}

// Object is the key of the object whose events keep their order: "kind/namespace/name".
func (d *Delivery) Object() string {
	o := d.Event.InvolvedObject
	return o.Kind + "/" + o.Namespace + "/" + o.Name
}

// Scheduled is a delivery that was put on the schedule, as far as its subject tells.
type Scheduled struct {
	ID        string
	Order     uint64
	Namespace string
	Provider  string
	// ObjectKey is ObjectKey of the delivery's object.
	ObjectKey string
	// Due says that its time has come: the bus hands it out. Until then it is on the schedule.
	Due bool
}

// ProviderKey names a Provider.
type ProviderKey struct{ Namespace, Provider string }

// Labels of dead letters that are given on both sides of the bus.
const (
	LabelQuota    = "quota"
	LabelTooLarge = "too_large"
)

// Dead is a delivery that was given up, with the label from a small closed set that it was given, and its place in the stream.
type Dead struct {
	Delivery Delivery
	Label    string
	Seq      uint64
}

// Recalled is what the bus has of a rescheduled delivery.
type Recalled struct {
	// Held is the delivery while it is on the schedule, where it stays until Ack. Its Nak and InProgress do nothing.
	Held Message[Delivery]
	// At is when the schedule hands it out, zero when it is not on the schedule any more.
	At time.Time
	// Due says that its time has come: the bus hands it out.
	Due bool
}

// ObjectKey is a short digest of Delivery.Object that is safe as a subject token.
func ObjectKey(object string) string { return hashFields(8, "object", object) }

// MaxTries bounds the attempts that are kept of a delivery. Beyond it the first ones and the last ones are kept.
const MaxTries = 20

// ClassSent is the Class of an attempt that the destination accepted.
const ClassSent = "sent"

// Attempt is one try to send a delivery. Nothing in it is secret.
type Attempt struct {
	// Time is when the attempt began.
	Time time.Time `json:"time"`
	// Millis is how long it took, in milliseconds.
	Millis int64 `json:"millis"`
	// Class is what it came to from a small closed set: ClassSent, or the Label of its Error.
	Class string `json:"class"`
	// Status is the HTTP status of an answer that refused it, 0 when there was none or it was not over HTTP.
	Status int `json:"status,omitempty"`
	// Failure is the Reason of its Error.
	Failure string `json:"failure,omitempty"`
	// Next is when the next attempt was due as this one failed, zero when it was the last.
	Next time.Time `json:"next,omitzero"`
}
