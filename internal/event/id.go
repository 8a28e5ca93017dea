package event

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// hashFields returns the first bytes of a hash of a kind and fields, in hexadecimal. Each field is preceded by its length, so two
// different lists of fields never have the same input.
func hashFields(bytes int, kind string, fields ...string) string {
	var room [1 << 10]byte // enough for most events, without an allocation
	text := appendField(room[:0], kind)
	for _, f := range fields {
		text = appendField(text, f)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:bytes])
}

func appendField(text []byte, s string) []byte {
	return append(append(strconv.AppendInt(text, int64(len(s)), 10), ':'), s...)
}

// idBytes is the length of an ID before encoding. 128 bits rule out accidental collisions. A deliberate one gains nothing: the
// namespace is among the hashed fields, so it would hit its own author.
const idBytes = 16

// PostID returns the identity of a POSTed event. It covers the fields by which Flux recognizes duplicates: object, message,
// revision, origin revision and token. It also covers UID, severity and reason, so a sender without the object's UID cannot occupy
// the identity of a genuine event (invariant E9).
func PostID(e Event) string {
	o := e.InvolvedObject
	group := o.Group()
	return hashFields(idBytes, "post",
		o.Namespace, o.Kind, o.Name, o.UID, e.Severity, e.Reason, e.Message,
		e.Metadata[group+"/originRevision"], e.Metadata[group+"/revision"], e.Metadata[group+"/token"],
	)
}

// AgainID returns the identity of a POSTed event that repeats the event id after the event since has reported the opposite outcome.
func AgainID(id, since string) string { return hashFields(idBytes, "again", id, since) }

// TransitionID returns the identity of a transition that a watcher publishes. It covers the object's UID, the outcome and the time
// of the transition. ordinal is the number of transitions of this object published before; it distinguishes two within one second.
func TransitionID(namespace, uid string, outcome Outcome, at time.Time, ordinal uint64) string {
	return hashFields(idBytes, "transition",
		namespace, uid, string(outcome), at.UTC().Format(time.RFC3339), strconv.FormatUint(ordinal, 10))
}

// DeliveryID returns the identity of one event's delivery for one Alert to one Provider. It is the same over redeliveries of the
// record, and different for a later record of the same content.
func DeliveryID(r *Record, alertUID, providerName string) string {
	return hashFields(idBytes, "delivery",
		r.Event.InvolvedObject.Namespace, r.ID, strconv.FormatUint(r.Seq, 10), alertUID, providerName)
}

// TestID returns the identity of a test message through the Provider with a UID. value identifies the request for it.
func TestID(namespace, providerUID, value string) string {
	return hashFields(idBytes, "test", namespace, providerUID, value)
}
