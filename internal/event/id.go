package event

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"strconv"
	"time"
)

// digest hashes fields so that no two different lists of fields collide: each is preceded by its length.
type digest struct{ h hash.Hash }

func newDigest(kind string) digest {
	d := digest{sha256.New()}
	d.field(kind)
	return d
}

func (d digest) field(s string) {
	var n [20]byte
	d.h.Write(strconv.AppendInt(n[:0], int64(len(s)), 10))
	d.h.Write([]byte{':'})
	_, _ = io.WriteString(d.h, s) // a hash never fails
}

func (d digest) hex(bytes int) string { return hex.EncodeToString(d.h.Sum(nil)[:bytes]) }

// idBytes is the length of an ID before encoding: 128 bits, beyond accidental and practical deliberate collision here,
// since nobody gains from colliding with themselves and the namespace is among the hashed fields.
const idBytes = 16

// PostID is the identity of a POSTed event. It covers the fields by which Flux tells duplicates apart (object, message,
// revision, origin revision, token) and also UID, severity and reason, so that a sender who does not know the object's
// UID cannot occupy the identity of a genuine event (invariant E9).
func PostID(e Event) string {
	o := e.InvolvedObject
	group := o.Group()
	d := newDigest("post")
	for _, s := range []string{
		o.Namespace, o.Kind, o.Name, o.UID, e.Severity, e.Reason, e.Message,
		e.Metadata[group+"/originRevision"], e.Metadata[group+"/revision"], e.Metadata[group+"/token"],
	} {
		d.field(s)
	}
	return d.hex(idBytes)
}

// AgainID is the identity of a POSTed event that says once more what the one with an ID said, after the event with the ID since has told
// the opposite.
func AgainID(id, since string) string {
	d := newDigest("again")
	d.field(id)
	d.field(since)
	return d.hex(idBytes)
}

// TransitionID is the identity of a transition that a watcher tells: the object's UID, the outcome, the time of the
// transition, and ordinal, the number of transitions of this object told before, which tells two within one second apart.
func TransitionID(namespace, uid string, outcome Outcome, at time.Time, ordinal uint64) string {
	d := newDigest("transition")
	for _, s := range []string{namespace, uid, string(outcome), at.UTC().Format(time.RFC3339), strconv.FormatUint(ordinal, 10)} {
		d.field(s)
	}
	return d.hex(idBytes)
}

// DeliveryID is the identity of one event's delivery for one Alert to one Provider: stable over redeliveries of the record,
// different for a later record of the same content.
func DeliveryID(r *Record, alertUID, providerName string) string {
	d := newDigest("delivery")
	for _, s := range []string{
		r.Event.InvolvedObject.Namespace, r.ID, strconv.FormatUint(r.Seq, 10), alertUID, providerName,
	} {
		d.field(s)
	}
	return d.hex(idBytes)
}

// TestID is the identity of a test message that was asked for under a value, through the Provider of a UID.
func TestID(namespace, providerUID, value string) string {
	d := newDigest("test")
	for _, s := range []string{namespace, providerUID, value} {
		d.field(s)
	}
	return d.hex(idBytes)
}
