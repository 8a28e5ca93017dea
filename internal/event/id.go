package event

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strconv"
	"time"
)

// hashFields returns so many bytes of a hash of a kind and fields, in hexadecimal. No two different lists of fields collide: each is
// preceded by its length.
func hashFields(bytes int, kind string, fields ...string) string {
	var room [hashedAtOnce]byte
	text := append(appendLength(room[:0], kind), kind...)
	for _, f := range fields {
		if len(text)+maxLength+len(f) > len(room) {
			return hashLong(bytes, kind, fields)
		}
		text = append(appendLength(text, f), f...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:bytes])
}

const (
	// hashedAtOnce is how long fields may be, in bytes, to be hashed without a copy in memory: those of most events are shorter.
	hashedAtOnce = 1 << 10
	// maxLength is the longest that appendLength appends, in bytes.
	maxLength = 21
)

func appendLength(text []byte, s string) []byte {
	return append(strconv.AppendInt(text, int64(len(s)), 10), ':')
}

// hashLong is hashFields of fields of any length, one after the other.
func hashLong(bytes int, kind string, fields []string) string {
	h, room := sha256.New(), make([]byte, 0, maxLength)
	for _, f := range append([]string{kind}, fields...) {
		h.Write(appendLength(room, f))
		_, _ = io.WriteString(h, f) // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:bytes])
}

// idBytes is the length of an ID before encoding: 128 bits, beyond accidental and practical deliberate collision here,
// since nobody gains from colliding with themselves and the namespace is among the hashed fields.
const idBytes = 16

// PostID is the identity of a POSTed event. It covers the fields by which Flux tells duplicates apart (object, message,
// revision, origin revision, token) and also UID, severity and reason, so that a sender who does not know the object's
// UID cannot occupy the identity of a genuine event (invariant E9).
func PostID(e Event) string {
	o := e.InvolvedObject
	group := o.Group()
	return hashFields(idBytes, "post",
		o.Namespace, o.Kind, o.Name, o.UID, e.Severity, e.Reason, e.Message,
		e.Metadata[group+"/originRevision"], e.Metadata[group+"/revision"], e.Metadata[group+"/token"],
	)
}

// AgainID is the identity of a POSTed event that says once more what the one with an ID said, after the event with the ID since has told
// the opposite.
func AgainID(id, since string) string { return hashFields(idBytes, "again", id, since) }

// TransitionID is the identity of a transition that a watcher tells: the object's UID, the outcome, the time of the
// transition, and ordinal, the number of transitions of this object told before, which tells two within one second apart.
func TransitionID(namespace, uid string, outcome Outcome, at time.Time, ordinal uint64) string {
	return hashFields(idBytes, "transition",
		namespace, uid, string(outcome), at.UTC().Format(time.RFC3339), strconv.FormatUint(ordinal, 10))
}

// DeliveryID is the identity of one event's delivery for one Alert to one Provider: stable over redeliveries of the record,
// different for a later record of the same content.
func DeliveryID(r *Record, alertUID, providerName string) string {
	return hashFields(idBytes, "delivery",
		r.Event.InvolvedObject.Namespace, r.ID, strconv.FormatUint(r.Seq, 10), alertUID, providerName)
}

// TestID is the identity of a test message that was asked for under a value, through the Provider of a UID.
func TestID(namespace, providerUID, value string) string {
	return hashFields(idBytes, "test", namespace, providerUID, value)
}
