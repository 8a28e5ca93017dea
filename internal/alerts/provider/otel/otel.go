package otel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

const (
	maxMessage = 8000    // characters of the status
	maxValue   = 1000    // characters of an attribute's key or value
	maxReply   = 4 << 10 // bytes of an answer
	lastYear   = 2200    // of a time in nanoseconds
	// scope is the name of the span's producer, by which Flux's spans are found.
	scope       = "flux:notification-controller"
	contentType = "application/x-protobuf"
)

// Takes reports whether an event is sent: it leaves out HelmRepository objects.
func Takes(n provider.Notification) bool {
	return provider.TakesMessages(n) && n.Event.InvolvedObject.Kind != "HelmRepository"
}

// Sender sends to one receiver.
type Sender struct {
	*provider.Client
	provider.Headers
	now func() time.Time
}

// New returns a Sender.
func New(cfg provider.Config) (*Sender, error) {
	s := &Sender{now: time.Now}
	var headerErr, loginErr, clientErr error
	s.Headers, headerErr = provider.NewHeaders(cfg.Headers, "Content-Type")
	login := cfg
	if cfg.Username != "" {
		login.Token, login.Password = "", cmp.Or(cfg.Token, cfg.Password)
	}
	if s.Sent.Get("Authorization") != "" { // it logs in, so that half a pair does no harm
		login.Username, login.SecretUsername, login.Password = "", false, ""
	}
	loginHeader, loginErr := login.OptionalLogin()
	cfg.Address = tracesURL(cfg.Address)
	s.Client, clientErr = provider.NewClient(cfg, provider.ClientOptions{MaxReply: maxReply})
	if err := errors.Join(headerErr, loginErr, clientErr); err != nil {
		return nil, err
	}
	if auth := loginHeader.Get("Authorization"); auth != "" && s.Sent.Get("Authorization") == "" {
		s.Sent.Set("Authorization", auth)
	}
	s.Sent.Set("Content-Type", contentType)
	return s, nil
}

// tracesURL returns an address with the path of traces if it has none.
func tracesURL(address string) string {
	address = strings.TrimSpace(address)
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return address
	}
	u.Path = "/v1/traces"
	return u.String()
}

// Send exports the event's span.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(s.traces(n))
	if err != nil {
		return event.NewError(event.Permanent, provider.LabelPayload, "message could not be encoded", err)
	}
	answer, err := s.Fetch(ctx, provider.Request{Header: s.Sent, Body: body})
	if err != nil {
		return err
	}
	if rejected(answer) {
		return event.NewError(event.Permanent, provider.LabelRejected, "the receiver rejected the span", nil)
	}
	return nil
}

// traces returns the export. The message has the same form as the request of the protocol's service.
func (s *Sender) traces(n provider.Notification) *tracepb.TracesData {
	o := n.Event.InvolvedObject
	return &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
			attribute("service.name", o.Namespace+"/"+n.Alert),
			attribute("service.namespace", o.Namespace),
			attribute("service.instance.id", n.AlertUID),
		}},
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: scope},
			Spans: []*tracepb.Span{s.span(n)},
		}},
	}}}
}

func (s *Sender) span(n provider.Notification) *tracepb.Span {
	e := n.Event
	o := e.InvolvedObject
	at := e.Timestamp
	if at.Unix() <= 0 || at.Year() > lastYear { // the protocol cannot express these
		at = s.now()
	}
	trace := sha256.Sum256([]byte(n.AlertUID + ":" + revision(e)))
	id := sha256.Sum256([]byte(n.DeliveryID))
	span := &tracepb.Span{
		TraceId: trace[:16], SpanId: id[:8],
		Name:              provider.Truncate(o.Kind+": "+o.Namespace+"/"+o.Name, maxValue),
		Kind:              tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: uint64(at.UnixNano()), EndTimeUnixNano: uint64(at.UnixNano()),
		Attributes: []*commonpb.KeyValue{
			attribute("object.uid", o.UID), attribute("object.kind", o.Kind), attribute("object.name", o.Name),
			attribute("object.namespace", o.Namespace),
		},
		Status: &tracepb.Status{Code: tracepb.Status_STATUS_CODE_OK},
	}
	if provider.Failed(n) {
		span.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: provider.Truncate(e.Message, maxMessage)}
	}
	for _, f := range provider.Facts(n, maxValue) {
		if f.Name != "" && !strings.HasPrefix(f.Name, "object.") {
			span.Attributes = append(span.Attributes, attribute(f.Name, f.Value))
		}
	}
	return span
}

func attribute(key, value string) *commonpb.KeyValue {
	value = provider.Truncate(value, maxValue)
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

// revision returns the revision of the trace: the source's if an artifact has another one, in the form that all of its objects share.
func revision(e event.Event) string {
	m := e.Metadata
	switch {
	case m["revision"] == "":
		return "unknown"
	case m["source-revision"] != "":
		return m["source-revision"]
	case m["app-version"] != "" && m["oci-digest"] != "":
		return m["app-version"] + "@" + m["oci-digest"]
	default:
		return m["revision"]
	}
}

// The numbers of the fields of an answer (ExportTraceServiceResponse).
const (
	partialSuccess = 1
	rejectedSpans  = 1
)

// rejected reports whether an answer, in protobuf or JSON, counts rejected spans. Any other answer counts none.
func rejected(answer []byte) bool {
	var reply struct {
		PartialSuccess struct {
			RejectedSpans json.RawMessage `json:"rejectedSpans"` // a number or, for 64 bits in JSON, a string
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(answer, &reply) == nil {
		count := strings.Trim(string(reply.PartialSuccess.RejectedSpans), `"`)
		return count != "" && count != "0" && count != "null"
	}
	count := field(field(answer, partialSuccess, protowire.BytesType), rejectedSpans, protowire.VarintType)
	v, n := protowire.ConsumeVarint(count)
	return n > 0 && v > 0
}

// field returns the value of a message's field, without its length if it is of bytes. It returns nil if there is no such field.
func field(message []byte, number protowire.Number, kind protowire.Type) []byte {
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(num, typ, message)
		if size < 0 {
			return nil
		}
		if num == number && typ == kind {
			if kind == protowire.BytesType {
				value, _ := protowire.ConsumeBytes(message)
				return value
			}
			return message[:size]
		}
		message = message[size:]
	}
	return nil
}
