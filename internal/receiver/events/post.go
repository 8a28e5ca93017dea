package events

import (
	"maps"
	"strings"
	"time"

	"notifier/internal/event"
)

// Objects is the part of the watchers' cache that the events endpoint uses. Lookup must not block.
type Objects interface {
	Lookup(kind, namespace, name string) (object event.Object, ok bool)
	// Pending reports whether the objects of a kind are still being read, so that Lookup may miss objects.
	Pending(kind string) bool
}

// decodePost decodes a POSTed event. Its error is for the sender and quotes nothing of the input. It accepts only identities that
// Kubernetes would: a forged name must bring no other characters into headers, subjects or logs.
func decodePost(body []byte) (event.Event, error) {
	e, err := event.Decode(body)
	if err != nil {
		return event.Event{}, err
	}
	if fault := faultOf(e.InvolvedObject); fault != "" {
		return event.Event{}, invalidPost("involvedObject" + fault)
	}
	if !isLine(e.Severity) || !isLine(e.Reason) || !isLine(e.Action) || !isLine(e.ReportingController) || !isLine(e.ReportingInstance) {
		return event.Event{}, invalidPost("severity, reason, action and reporter must be short and of one line")
	}
	if r := e.RelatedObject; r != nil && (faultOf(*r) != "" || !isLine(r.ResourceVersion) || !isLine(r.FieldPath)) {
		e.RelatedObject = nil // an addition, for which the event is not lost
	}
	return e, nil
}

// faultOf says, after the reference's name, why no object can be what o names. It is empty if there may be such an object.
func faultOf(o event.ObjectReference) string {
	switch {
	case !isLabel(o.Namespace) && o.Namespace != "": // which the involved object always has
		return ".namespace is not the name of a namespace"
	case !isWord(o.Kind, ""):
		return ".kind is not the name of a kind"
	case !isWord(o.Name, "-.:_") || !isWord(o.UID, "-.:_") && o.UID != "":
		return " has a name or uid that no object can have"
	case !isWord(o.APIVersion, "-./") && o.APIVersion != "":
		return ".apiVersion is not the name of a version"
	}
	return ""
}

// invalidPost is the reason why a body is no event that a controller could have sent.
type invalidPost string

func (e invalidPost) Error() string { return string(e) }

// isLabel reports whether s is a DNS label, as every namespace's name is.
func isLabel(s string) bool {
	if len(s) > 63 || strings.HasPrefix(s, "-") || strings.HasSuffix(s, "-") || strings.ToLower(s) != s {
		return false
	}
	return isWord(s, "-")
}

// isWord reports whether s is a non-empty string of ASCII letters, digits and the characters of extra.
func isWord(s, extra string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte(extra, c) < 0 {
			return false
		}
	}
	return s != ""
}

// maxLine bounds short fields, in bytes: Kubernetes allows 128 for an event's reason, 253 for a name.
const maxLine = 1024

// isLine reports whether s is short and free of control characters.
func isLine(s string) bool {
	return len(s) <= maxLine && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// newRecord returns the record of a POSTed event, and the object of the watchers' cache. The record has the event's identity, the object's
// cached state, and the metadata for destinations.
//
// The labels are those of the object in the cache, unless the event names another UID: then it is about a deleted object, or forged. They
// only decide which Alerts of the object's own namespace match, so an event without UID gets them as well. Only a matching UID makes the
// record Known (invariant E9).
func newRecord(e event.Event, objects Objects, accepted time.Time) (*event.Record, event.Object) {
	if e.Timestamp.IsZero() {
		e.Timestamp = accepted.UTC().Truncate(time.Second)
	}
	r := &event.Record{
		ID: event.PostID(e), Source: event.SourcePost, Outcome: event.OutcomeOf(e), Accepted: accepted,
	}
	o := e.InvolvedObject
	object, ok := objects.Lookup(o.Kind, o.Namespace, o.Name)
	if ok && (o.UID == "" || o.UID == object.UID) {
		r.Known = o.UID != "" // so a cache without a UID matches nothing
		r.Labels = object.Labels
	}
	cleanMetadata(&e)
	e.TrimMetadata()
	r.Event = e
	return r, object
}

// cleanMetadata keeps the metadata for destinations: the keys under the object's own API group and the user's own. The identity covers the
// token, so it must be computed before.
func cleanMetadata(e *event.Event) {
	group := e.InvolvedObject.Group() + "/"
	maps.DeleteFunc(e.Metadata, func(key, _ string) bool {
		if strings.HasPrefix(key, event.MetadataPrefix) {
			return false
		}
		name, found := strings.CutPrefix(key, group)
		return !found || event.IsInternalKey(name)
	})
	if len(e.Metadata) == 0 {
		e.Metadata = nil
	}
}
