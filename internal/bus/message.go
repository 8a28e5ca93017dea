package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"notifier/internal/event"
)

// Headers of ours. None starts with "Nats-Schedule": the server strips those when a scheduled message fires. It removes Nats-Msg-Id as
// well, which is why a delivery's ID is in a header of its own.
const (
	headerID        = "Notifier-Id"
	headerSource    = "Notifier-Source"
	headerOutcome   = "Notifier-Outcome"
	headerKnown     = "Notifier-Known"
	headerDoubted   = "Notifier-Doubted"
	headerMessage   = "Notifier-Message"
	headerRevision  = "Notifier-Revision"
	headerLabels    = "Notifier-Labels"
	headerAccepted  = "Notifier-Accepted"
	headerKind      = "Notifier-Kind"
	headerNamespace = "Notifier-Namespace"
	headerName      = "Notifier-Name"
	headerUID       = "Notifier-Uid"
	headerVersion   = "Notifier-Api-Version"
	headerSeverity  = "Notifier-Severity"
	headerReason    = "Notifier-Reason"
	headerLabel     = "Notifier-Label"
	headerSubject   = "Notifier-Subject"
	headerFailed    = "Notifier-Failed"
)

// The CloudEvents binding for NATS, binary mode: attributes in headers, the event itself as the body.
const (
	ceSpecVersion = "1.0"
	ceTypePrefix  = "io.fluxcd.event."
)

// encodeJSON encodes without the escapes that make JSON safe within HTML: they would make a body of '<' six times as long, and an accepted
// event would not fit the bus.
func encodeJSON(v any) ([]byte, error) {
	e, err := encode(v)
	if err != nil {
		return nil, err
	}
	defer e.release()
	return bytes.Clone(e.body()), nil
}

// encode is encodeJSON into a buffer that is reused once it is released.
func encode(v any) (*encoder, error) {
	e := encoders.Get().(*encoder)
	if err := e.json.Encode(v); err != nil {
		e.release()
		return nil, err
	}
	return e, nil
}

// decodeLines reads a body that has a value as JSON in each line. It skips lines that cannot be read.
func decodeLines[T any](body []byte) (values []T) {
	for line := range bytes.Lines(body) {
		var v T
		if json.Unmarshal(line, &v) == nil {
			values = append(values, v)
		}
	}
	return values
}

// minEncoder is the size of a new encoder's buffer, maxEncoder that of the largest buffer that is kept for the next use, in bytes.
const (
	minEncoder = 2 << 10
	maxEncoder = 64 << 10
)

// encoder has one encoded value, or is in encoders.
type encoder struct {
	out  bytes.Buffer
	json *json.Encoder
}

// line returns the encoded value and a line break, body the value alone. Both are in the encoder's buffer.
func (e *encoder) line() []byte { return e.out.Bytes() }

func (e *encoder) body() []byte { return bytes.TrimSuffix(e.out.Bytes(), []byte("\n")) }

var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.out.Grow(minEncoder)
	e.json = json.NewEncoder(&e.out)
	e.json.SetEscapeHTML(false)
	return e
}}

func (e *encoder) release() {
	if e.out.Cap() > maxEncoder {
		return
	}
	e.out.Reset()
	encoders.Put(e)
}

// setHeader sets a header to a value from outside, percent-encoded as the CloudEvents binding requires. An empty value sets nothing.
func setHeader(h nats.Header, name, value string) {
	if value != "" {
		h.Set(name, event.PercentEncode(value))
	}
}

// recordHeaders is how many headers a record has at most.
const recordHeaders = 24

// headers makes the header of a record, with all values in one slice: a header with many values costs little more than one with one.
type headers struct {
	all    nats.Header
	values []string
	// body has the record's event.
	body *encoder
}

// headersPool has the headers of published records: allocating a map of that size is a tenth of the cost of an event.
var headersPool = sync.Pool{New: func() any {
	return &headers{all: make(nats.Header, recordHeaders), values: make([]string, 0, recordHeaders)}
}}

// release makes the header and the body available for another message. Neither the message nor its parts may be used afterwards.
func (h *headers) release() {
	h.body.release()
	h.body = nil
	clear(h.all)
	clear(h.values)
	h.values = h.values[:0]
	headersPool.Put(h)
}

// set is setHeader for a name that was not set.
func (h *headers) set(name, value string) {
	if value == "" {
		return
	}
	h.values = append(h.values, event.PercentEncode(value))
	n := len(h.values)
	h.all[name] = h.values[n-1 : n : n]
}

// header returns a header that setHeader has set, empty when it is absent or damaged.
func header(h nats.Header, name string) string {
	value, err := url.PathUnescape(h.Get(name))
	if err != nil {
		return ""
	}
	return value
}

func headerTime(h nats.Header, name string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, header(h, name))
	if err != nil {
		return time.Time{}
	}
	return t
}

// encodeRecord writes a record as Flux's event JSON, with everything else in headers, so that anyone may read the stream. The headers, and
// the body with them, may be released once the message is no longer used.
func encodeRecord(r *event.Record) (*nats.Msg, *headers, error) {
	if r.ID == "" {
		return nil, nil, errors.New("record has no ID")
	}
	body, err := encode(r.Event)
	if err != nil {
		return nil, nil, fmt.Errorf("encode event: %w", err)
	}
	o := r.Event.InvolvedObject
	h := headersPool.Get().(*headers)
	h.body = body
	h.set(nats.MsgIdHdr, r.ID)
	h.set("ce-id", r.ID)
	h.set("ce-specversion", ceSpecVersion)
	h.set("ce-source", "/namespaces/"+o.Namespace+"/"+o.Kind+"/"+o.Name)
	h.set("ce-type", ceTypePrefix+r.Event.Severity)
	h.set("ce-time", r.Event.Timestamp.UTC().Format(time.RFC3339Nano))
	h.set("ce-datacontenttype", "application/json")
	h.set(headerSource, string(r.Source))
	h.set(headerOutcome, string(r.Outcome))
	h.set(headerAccepted, r.Accepted.UTC().Format(time.RFC3339Nano))
	h.set(headerKind, o.Kind)
	h.set(headerNamespace, o.Namespace)
	h.set(headerName, o.Name)
	h.set(headerUID, o.UID)
	h.set(headerVersion, o.APIVersion)
	h.set(headerSeverity, r.Event.Severity)
	h.set(headerReason, r.Event.Reason)
	if r.Known {
		h.set(headerKnown, "true")
	}
	if r.Doubted {
		h.set(headerDoubted, "true")
	}
	h.set(headerMessage, messageStart(r))
	h.set(headerRevision, shortRevision(r))
	if r.Labels != nil {
		labels, err := encodeJSON(r.Labels)
		if err != nil {
			return nil, nil, fmt.Errorf("encode labels: %w", err)
		}
		if len(labels) > maxLabels {
			labels = []byte("{}") // the object has labels, and none of them can be matched
		}
		h.set(headerLabels, string(labels))
	}
	return &nats.Msg{Subject: eventSubject(o), Header: h.all, Data: body.body()}, h, nil
}

// messageStart returns what the headers have of a record's message: of a POSTed failure the beginning, which a watcher compares with the
// object, else nothing.
func messageStart(r *event.Record) string {
	if r.Source != event.SourcePost || r.Outcome != event.OutcomeFailed {
		return ""
	}
	return r.Event.Message[:min(len(r.Event.Message), event.MessageStart)]
}

// shortRevision returns the revision of a record, empty if it has none or if that is longer than event.MaxRevision.
func shortRevision(r *event.Record) string {
	if revision := r.Event.Revision(); len(revision) <= event.MaxRevision {
		return revision
	}
	return ""
}

// maxLabels bounds an object's labels in a header, in bytes of JSON: the server takes 64 KiB of headers.
const maxLabels = 16 << 10

// recordFromHeaders reads a record from its headers. Its event has the revision and no other metadata, and a message only for a POSTed
// failure: the first event.MessageStart bytes of it.
func recordFromHeaders(h nats.Header) (*event.Record, error) {
	r := &event.Record{
		ID: header(h, nats.MsgIdHdr), Source: event.Source(header(h, headerSource)), Outcome: event.Outcome(header(h, headerOutcome)),
		Known: h.Get(headerKnown) == "true", Doubted: h.Get(headerDoubted) == "true", Accepted: headerTime(h, headerAccepted),
		Event: event.Event{
			InvolvedObject: event.ObjectReference{
				Kind: header(h, headerKind), Namespace: header(h, headerNamespace), Name: header(h, headerName),
				UID: header(h, headerUID), APIVersion: header(h, headerVersion),
			},
			Severity: header(h, headerSeverity), Reason: header(h, headerReason), Message: header(h, headerMessage), Timestamp: headerTime(h, "ce-time"),
		},
	}
	if r.ID == "" {
		return nil, errors.New("message has no ID")
	}
	if revision := header(h, headerRevision); revision != "" {
		r.Event.SetRevision(revision)
	}
	if labels := header(h, headerLabels); labels != "" {
		if err := json.Unmarshal([]byte(labels), &r.Labels); err != nil {
			return nil, errors.New("labels are not JSON")
		}
	}
	return r, nil
}

// decodeRecord reads a message of EVENTS. The subject decides which namespace the event is of, so that a publisher that may publish to one
// namespace's subjects alone cannot reach another's Alerts with a body (invariant E1).
func decodeRecord(m *nats.Msg) (*event.Record, error) {
	r, err := recordFromHeaders(m.Header)
	if err != nil {
		return nil, err
	}
	if r.Event, err = event.Decode(m.Data); err != nil {
		return nil, err
	}
	if m.Subject != eventSubject(r.Event.InvolvedObject) {
		return nil, errors.New("subject names another object than the event")
	}
	return r, nil
}

// encodeDelivery writes a delivery with its whole state as a message for any of the streams.
func encodeDelivery(subject, msgID string, d *event.Delivery) (*nats.Msg, error) {
	if d.ID == "" {
		return nil, errors.New("delivery has no ID")
	}
	body, err := encodeJSON(d)
	if err != nil {
		return nil, fmt.Errorf("encode delivery: %w", err)
	}
	m := newMsg(subject, body)
	setHeader(m.Header, headerID, d.ID)
	setHeader(m.Header, nats.MsgIdHdr, msgID)
	return m, nil
}

func decodeDelivery(m *nats.Msg) (event.Delivery, error) {
	var d event.Delivery
	if err := json.Unmarshal(m.Data, &d); err != nil {
		return event.Delivery{}, errors.New("body is not a delivery")
	}
	if d.ID == "" || d.Namespace == "" || d.Provider == "" {
		return event.Delivery{}, errors.New("delivery without ID, namespace or provider")
	}
	if d.Namespace != namespaceOf(m.Subject) || d.Event.InvolvedObject.Namespace != d.Namespace {
		return event.Delivery{}, errors.New("subject and delivery are of different namespaces")
	}
	return d, nil
}

func decodeTrigger(m *nats.Msg) (event.Trigger, error) {
	var t event.Trigger
	if err := json.Unmarshal(m.Data, &t); err != nil {
		return event.Trigger{}, errors.New("body is not a trigger")
	}
	if t.Namespace == "" || t.Key == "" || t.Target.Kind == "" || t.Target.Name == "" {
		return event.Trigger{}, errors.New("trigger without namespace, key or target")
	}
	if t.Namespace != namespaceOf(m.Subject) {
		return event.Trigger{}, errors.New("subject and trigger are of different namespaces")
	}
	return t, nil
}
