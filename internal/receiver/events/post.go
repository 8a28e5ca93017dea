package events

import (
	"maps"
	"strings"
	"time"

	"notifier/internal/event"
)

// Objects is the watchers' cache as the events endpoint sees it. Lookup must not block.
type Objects interface {
	Lookup(kind, namespace, name string) (object event.Object, ok bool)
	// Pending reports whether the objects of a kind are still being read, so that Lookup cannot tell yet.
	Pending(kind string) bool
}

// decodePost reads a POSTed event. Its error is for the sender and quotes nothing of the input. What it admits as the object's
// identity is what Kubernetes would: a forged name must not reach headers, subjects or logs with anything else in it.
func decodePost(body []byte) (event.Event, error) {
	e, err := event.Decode(body)
	if err != nil {
		return event.Event{}, err
	}
	o := e.InvolvedObject
	switch {
	case !isLabel(o.Namespace):
		return event.Event{}, invalidPost("involvedObject.namespace is not the name of a namespace")
	case !isWord(o.Kind, ""):
		return event.Event{}, invalidPost("involvedObject.kind is not the name of a kind")
	case !isWord(o.Name, "-.:_") || !isWord(o.UID, "-.:_") && o.UID != "":
		return event.Event{}, invalidPost("involvedObject has a name or uid that no object can have")
	case !isWord(o.APIVersion, "-./") && o.APIVersion != "":
		return event.Event{}, invalidPost("involvedObject.apiVersion is not the name of a version")
	case !isLine(e.Severity) || !isLine(e.Reason) || !isLine(e.ReportingController) || !isLine(e.ReportingInstance):
		return event.Event{}, invalidPost("severity, reason and reporter must be short and of one line")
	}
	return e, nil
}

// invalidPost says why a body is no event that a controller could have sent.
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

// maxLine bounds what is short by nature, in bytes: Kubernetes allows 128 for an event's reason, 253 for a name.
const maxLine = 1024

// isLine reports whether s is short and free of control characters.
func isLine(s string) bool {
	return len(s) <= maxLine && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// newRecord makes the record of a POSTed event: its identity, what the watchers' cache knows of its object, which it returns as well, and
// the metadata that destinations are shown.
//
// The labels are those of the object in the cache, unless the event names another UID: then it speaks of an object that is
// gone, or forges. They decide nothing but which Alerts of the object's own namespace match, so an event without UID gets
// them as well; only a UID that matches makes the record Known (invariant E9).
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
		r.Known = o.UID != "" // so a cache that knows no UID matches nothing
		r.Labels = object.Labels
	}
	cleanMetadata(&e)
	e.TrimMetadata()
	r.Event = e
	return r, object
}

// cleanMetadata keeps what is addressed to destinations: the keys under the object's own API group and the user's own.
// The identity must have been computed before, since it covers the token.
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
