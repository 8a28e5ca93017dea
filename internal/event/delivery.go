package event

import (
	"errors"
	"strconv"
	"time"
)

// Delivery is one event on its way to one Provider for one Alert.
type Delivery struct {
	// ID is the same for every attempt and redelivery. Destinations that can drop duplicates receive it.
	ID string `json:"id"`
	// Order is the event's place in the stream of events. Deliveries of one object to one Provider are sent in this order.
	Order uint64 `json:"order"`
	// Namespace is the namespace of the Alert, the Provider and the event's object alike (invariant E1).
	Namespace string `json:"namespace"`
	Alert     string `json:"alert"`
	AlertUID  string `json:"alertUID"`
	Provider  string `json:"provider"`
	// ProviderUID is empty if the Provider did not exist when the event was routed.
	ProviderUID string `json:"providerUID,omitempty"`
	// Event includes the metadata as the Alert merged it.
	Event Event `json:"event"`
	// Authored lists, sorted, the keys of the metadata whose values the Alert's author wrote. All other values are from objects and
	// controllers, and through them from Git, tools and the clients of the events endpoint.
	Authored []string `json:"authored,omitempty"`
	// Annotated lists those of the Authored keys on which a type decides by the object's annotation, where the object has it. The values
	// are the author's all the same. A delivery that an older version routed has none.
	Annotated []string `json:"annotated,omitempty"`
	// Known says that the event is about an existing object of the cluster and is not doubted (Record.Known, Record.Doubted).
	Known bool `json:"known,omitempty"`
	// Routed is the time at which the event was routed.
	Routed time.Time `json:"routed"`
	// Attempts counts the attempts so far, FirstAttempt is the time of the first one.
	Attempts     int       `json:"attempts,omitempty"`
	FirstAttempt time.Time `json:"firstAttempt,omitzero"`
	// LastError is the safe reason of the last failed attempt.
	LastError string `json:"lastError,omitempty"`
	// Reschedules counts how often the delivery was rescheduled. Of two copies of one replay the one with more is the newer.
	Reschedules int `json:"parks,omitempty"`
	// Replays counts how often the delivery was published anew after it had ended, Replayed is the time of the last replay.
	Replays  int       `json:"replays,omitempty"`
	Replayed time.Time `json:"replayed,omitzero"`
	// Again says that the destination had accepted the delivery before it was replayed. Only a record of this replay, or of a later
	// one, then says that nothing is left to send.
	Again bool `json:"again,omitempty"`
	// Destination is the version of the Provider's configuration under which the delivery was last routed or attempted.
	Destination string `json:"destination,omitempty"`
	// Tries lists the failed attempts, oldest first, at most MaxTries of them. Once the delivery is sent, the accepted attempt is the
	// last one, if any failed before it.
	Tries []Attempt `json:"tries,omitempty"`
	// Took is the duration of the attempt that the destination accepted, zero until then.
	Took time.Duration `json:"-"`
	// Test says that the delivery is a requested test message for the Provider. It has no Alert.
	Test bool `json:"test,omitempty"`
	// Recheck says that the delivery may have been sent before, so its ID is looked up in the history first.
	Recheck bool `json:"recheck,omitempty"`
}

// Run identifies the delivery in its current replay, which Replays counts. It is the ID until the first replay.
func (d *Delivery) Run() string { return RunOf(d.ID, d.Replays) }

// RunOf returns Delivery.Run for an ID and a count of replays.
func RunOf(id string, replays int) string {
	if replays == 0 {
		return id
	}
	return id + "#replay" + strconv.Itoa(replays)
}

// Object returns the key of the object whose events keep their order: "kind/namespace/name".
func (d *Delivery) Object() string {
	o := d.Event.InvolvedObject
	return o.Kind + "/" + o.Namespace + "/" + o.Name
}

// Scheduled is a rescheduled delivery, as far as the subject of its message describes it.
type Scheduled struct {
	ID        string
	Order     uint64
	Namespace string
	Provider  string
	// ObjectKey is the result of the function ObjectKey for the delivery's object.
	ObjectKey string
	// Due says that the scheduled time has passed and the bus delivers the message. Until then it is on the schedule.
	Due bool
}

// ProviderKey names a Provider.
type ProviderKey struct{ Namespace, Provider string }

// ErrTooLarge is the bus's error for a message that it will never take: it is larger than what the bus carries, or its names are too long.
var ErrTooLarge = errors.New("message is larger than the bus carries")

// Labels of dead letters that are assigned on both sides of the bus.
const (
	LabelQuota    = "quota"
	LabelTooLarge = "too_large"
)

// Dead is a dead letter: the delivery, its label from a small closed set, and its place in the stream.
type Dead struct {
	Delivery Delivery
	Label    string
	Seq      uint64
}

// Recalled is a rescheduled delivery as the bus found it.
type Recalled struct {
	// Held is the delivery while it is on the schedule, where it stays until Ack. Its Nak and InProgress do nothing.
	Held Message[Delivery]
	// At is the time at which the schedule publishes it, zero if it is no longer on the schedule.
	At time.Time
	// Due says that the scheduled time has passed and the bus delivers the message.
	Due bool
}

// ObjectKey returns a short digest of Delivery.Object that is safe as a subject token.
func ObjectKey(object string) string { return hashFields(8, "object", object) }

// MaxTries bounds the attempts that are kept of a delivery. Of more attempts the first and the last are kept.
const MaxTries = 20

// ClassSent is the Class of an attempt that the destination accepted.
const ClassSent = "sent"

// Attempt is one try to send a delivery. It contains no secret.
type Attempt struct {
	// Time is the beginning of the attempt.
	Time time.Time `json:"time"`
	// Millis is its duration in milliseconds.
	Millis int64 `json:"millis"`
	// Class is its result from a small closed set: ClassSent, or the Label of its Error.
	Class string `json:"class"`
	// Status is the HTTP status of a refusal, 0 if there was no answer or the attempt did not use HTTP.
	Status int `json:"status,omitempty"`
	// Failure is the Reason of its Error.
	Failure string `json:"failure,omitempty"`
	// Next is the time at which the next attempt was due when this one failed, zero if there was no next attempt.
	Next time.Time `json:"next,omitzero"`
}
