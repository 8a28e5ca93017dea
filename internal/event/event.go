package event

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Severities that Flux controllers emit. Trace events are accepted and matched like info.
const (
	SeverityTrace = "trace"
	SeverityInfo  = "info"
	SeverityError = "error"
)

// MetadataPrefix marks the metadata keys (and object annotations) that a user attached to an object for its alerts.
const MetadataPrefix = "event.toolkit.fluxcd.io/"

// Event is one occurrence in the life of a Kubernetes object, in the JSON form of Flux's event API (event.toolkit.fluxcd.io v1). An event of
// version v1beta1 has no related object and no action. Decoding ignores unknown fields, so events of later versions are accepted.
type Event struct {
	InvolvedObject      ObjectReference   `json:"involvedObject"`
	RelatedObject       *ObjectReference  `json:"relatedObject,omitempty"`
	Severity            string            `json:"severity"`
	Timestamp           time.Time         `json:"timestamp"`
	Message             string            `json:"message"`
	Reason              string            `json:"reason"`
	Action              string            `json:"action,omitempty"`
	Metadata            map[string]string `json:"metadata,omitempty"`
	ReportingController string            `json:"reportingController"`
	ReportingInstance   string            `json:"reportingInstance,omitempty"`
}

// ObjectReference names the object of an event, with the field names of Kubernetes' core/v1 ObjectReference.
type ObjectReference struct {
	Kind            string `json:"kind,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	UID             string `json:"uid,omitempty"`
	APIVersion      string `json:"apiVersion,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	FieldPath       string `json:"fieldPath,omitempty"`
}

// Group returns the API group of the object, empty for the core group.
func (r ObjectReference) Group() string {
	group, _, found := strings.Cut(r.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

// String returns the object as "kind/name.namespace" with a lower-case kind, the form that Flux uses in messages.
func (r ObjectReference) String() string {
	return strings.ToLower(r.Kind) + "/" + r.Name + "." + r.Namespace
}

// HasLabels reports whether labels include all the wanted labels.
func HasLabels(labels, wanted map[string]string) bool {
	for key, want := range wanted {
		if got, ok := labels[key]; !ok || got != want {
			return false
		}
	}
	return true
}

// maxPosted bounds the metadata of a POSTed event, in bytes of JSON. Kubernetes allows an object 256 KiB of annotations.
const maxPosted = 512 << 10

// posted is the metadata of a POSTed event. It is dropped beyond maxPosted: hundreds of thousands of small entries would cost forty times as
// much as a long message.
type posted struct {
	entries map[string]string
	read    bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *posted) UnmarshalJSON(body []byte) error {
	if p.read {
		return errors.New("metadata is there more than once")
	}
	if p.read = true; len(body) > maxPosted {
		return nil
	}
	return json.Unmarshal(body, &p.entries)
}

// Decode parses one event as a Flux controller POSTs it. The time is truncated to seconds. The error never quotes the input.
func Decode(body []byte) (Event, error) {
	var of struct {
		Event
		Metadata posted `json:"metadata"`
	}
	if err := json.Unmarshal(body, &of); err != nil {
		return Event{}, errors.New("body is not an event in JSON")
	}
	e := of.Event
	e.Metadata = of.Metadata.entries
	if related := e.RelatedObject; related != nil && related.overlong() != "" {
		e.RelatedObject = nil // an addition, for which the event is not lost
	}
	if err := e.Validate(); err != nil {
		return Event{}, err
	}
	e.Timestamp = e.Timestamp.UTC().Truncate(time.Second)
	if year := e.Timestamp.Year(); year < 0 || year > 9999 { // a zone can move it there; such a time cannot be encoded again
		return Event{}, errors.New("timestamp is outside the years 0 to 9999")
	}
	return e, nil
}

// maxNameLength bounds the parts of an object's identity. Kubernetes allows 253 characters for a name and 63 for a namespace.
const maxNameLength = 253

// Validate returns an error if the event does not name an object that it can be routed by.
func (e Event) Validate() error {
	o := e.InvolvedObject
	for _, part := range [...]struct{ name, value string }{{"kind", o.Kind}, {"namespace", o.Namespace}, {"name", o.Name}} {
		if part.value == "" { // no event is routed without it
			return fmt.Errorf("involvedObject.%s is empty", part.name)
		}
	}
	if name := o.overlong(); name != "" {
		return fmt.Errorf("involvedObject.%s is longer than %d characters", name, maxNameLength)
	}
	return nil
}

// overlong returns the name of the first field that is longer than Kubernetes allows, empty if there is none.
func (r ObjectReference) overlong() string {
	for _, part := range [...]struct{ name, value string }{
		{"kind", r.Kind},
		{"namespace", r.Namespace},
		{"name", r.Name},
		{"uid", r.UID},
		{"apiVersion", r.APIVersion},
		{"resourceVersion", r.ResourceVersion},
		{"fieldPath", r.FieldPath},
	} {
		if len(part.value) > maxNameLength {
			return part.name
		}
	}
	return ""
}

// MessageStart is the number of bytes of a POSTed failure's message that are kept beside the body, for readers of headers alone.
const MessageStart = 512

// MaxRevision is the length, in bytes, of the longest revision that is kept of an event beside its body.
const MaxRevision = 1 << 10

// MaxMetadata bounds the metadata of an event, keys and values together with entryBytes for each entry, in bytes. An event is copied for
// every matching Alert, so a tenant can multiply its size.
const MaxMetadata = 32 << 10

// entryBytes is about how much memory a map takes for an entry, beside the key's and the value's bytes.
const entryBytes = 64

// Size returns about how many bytes of memory the event takes.
func (e *Event) Size() int {
	return 1<<10 + len(e.Message) + len(e.Action) + e.RelatedObject.size() + e.metadataSize()
}

func (r *ObjectReference) size() int {
	if r == nil {
		return 0
	}
	return 128 + len(r.Kind) + len(r.Namespace) + len(r.Name) + len(r.UID) + len(r.APIVersion) + len(r.ResourceVersion) + len(r.FieldPath)
}

func (e *Event) metadataSize() (size int) {
	for key, value := range e.Metadata {
		size += entryBytes + len(key) + len(value)
	}
	return size
}

// TrimMetadata drops the largest entries until the metadata is within its bound. The small entries say most about the event.
func (e *Event) TrimMetadata() {
	total := e.metadataSize()
	if total <= MaxMetadata {
		return
	}
	type entry struct {
		key  string
		size int
	}
	bySize := make([]entry, 0, len(e.Metadata))
	for key, value := range e.Metadata {
		bySize = append(bySize, entry{key, entryBytes + len(key) + len(value)})
	}
	slices.SortFunc(bySize, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.size, a.size), strings.Compare(a.key, b.key))
	})
	kept := maps.Clone(e.Metadata) // the caller's map may be shared
	for _, largest := range bySize {
		if total <= MaxMetadata {
			break
		}
		total -= largest.size
		delete(kept, largest.key)
	}
	e.Metadata = kept
}

// Revision returns the event's revision, which the reporting controller puts under "<API group>/revision".
func (e Event) Revision() string { return e.Metadata[e.revisionKey()] }

// SetRevision sets the result of Revision.
func (e *Event) SetRevision(revision string) {
	if e.Metadata == nil {
		e.Metadata = map[string]string{}
	}
	e.Metadata[e.revisionKey()] = revision
}

func (e Event) revisionKey() string { return e.InvolvedObject.Group() + "/revision" }
