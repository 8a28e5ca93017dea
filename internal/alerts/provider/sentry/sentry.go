package sentry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

const (
	maxMessage     = 8192 // characters
	maxTag         = 200  // characters of a tag's key or value
	maxFact        = 200  // characters of the metadata beside an error
	maxEnvironment = 64   // characters
)

// Sender sends to one project.
type Sender struct {
	*provider.Client
	header      http.Header
	environment string
	now         func() time.Time
	// issues is nil without a token.
	issues *issues
}

// New returns a Sender for the DSN in the address. With a token it resolves issues.
func New(cfg provider.Config) (*Sender, error) {
	d, err := parseDSN(cfg.Address)
	if err != nil {
		return nil, err
	}
	header, err := provider.Credential("X-Sentry-Auth", "Sentry sentry_version=7, sentry_client=notifier/1.0, sentry_key=", "address", d.key)
	if err != nil {
		return nil, err
	}
	header.Set("Content-Type", "application/x-sentry-envelope")
	s := &Sender{header: header, environment: provider.Truncate(cfg.Channel, maxEnvironment), now: time.Now}
	cfg.Address = d.envelopes()
	options := provider.ClientOptions{Word: word}
	if cfg.Token != "" {
		options.MaxReply = maxReply
	}
	if s.Client, err = provider.NewClient(cfg, options); err != nil {
		return nil, err
	}
	if cfg.Token != "" {
		s.issues, err = newIssues(cfg, d, s.Client)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// word returns the part of a refusal's answer that is shown: the text by which Sentry refuses a request.
var word = provider.WordAt("detail",
	"bad sentry DSN public key", "event submission rejected with_reason: DisabledKey", "event submission rejected with_reason: ProjectId",
	"invalid event envelope", "missing authorization information", "Invalid token", "Authentication credentials were not provided.",
	"You do not have permission to perform this action.", "The requested resource does not exist",
)

// item is an error event or a transaction.
type item struct {
	EventID     string            `json:"event_id"`
	Type        string            `json:"type,omitempty"`
	Timestamp   time.Time         `json:"timestamp"`
	Start       time.Time         `json:"start_timestamp,omitzero"`
	Platform    string            `json:"platform"`
	Level       string            `json:"level,omitempty"`
	ServerName  string            `json:"server_name,omitempty"`
	Environment string            `json:"environment,omitempty"`
	Transaction string            `json:"transaction"`
	Message     string            `json:"message,omitempty"`
	Fingerprint []string          `json:"fingerprint,omitempty"`
	Tags        map[string]string `json:"tags"`
	Extra       map[string]string `json:"extra,omitempty"`
	Contexts    map[string]trace  `json:"contexts,omitempty"`
}

type trace struct {
	TraceID string `json:"trace_id"`
	SpanID  string `json:"span_id"`
	Op      string `json:"op"`
	Status  string `json:"status"`
}

// Send submits the event's envelope, unless the event only closes. It first resolves the issues of an object that recovered: a second
// attempt then finds none, whereas a second transaction would count.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	if s.Needless(n) {
		return nil
	}
	body, err := envelope(s.item(n))
	if err != nil {
		return event.NewError(event.Permanent, provider.LabelPayload, "message could not be encoded", err)
	}
	if s.issues == nil {
		return s.Post(ctx, provider.Request{Header: s.header, Body: body})
	}
	return s.issues.recoveries.Send(n, func() error {
		return s.Call(ctx, func(ctx context.Context) error {
			if err := s.issues.before(ctx, n, s.now()); err != nil {
				return err
			}
			if provider.ClosesOnly(n) {
				return nil
			}
			_, err := s.Do(ctx, provider.Request{Header: s.header, Body: body})
			if err == nil {
				s.issues.sent(n, s.now())
			}
			return err
		})
	})
}

// Needless reports whether n only closes, and nothing can be closed (without a token) or is open.
func (s *Sender) Needless(n provider.Notification) bool {
	return provider.ClosesOnly(n) && (s.issues == nil || s.issues.recoveries.Needless(n))
}

// envelope returns three lines: the envelope's header, the item's header and the item.
func envelope(i item) ([]byte, error) {
	payload, err := json.Marshal(i)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	lines := json.NewEncoder(&b) // it ends each line
	if err := errors.Join(
		lines.Encode(map[string]string{"event_id": i.EventID}),
		lines.Encode(map[string]any{"type": cmp.Or(i.Type, "event"), "length": len(payload)}),
	); err != nil {
		return nil, err
	}
	b.Write(payload)
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func (s *Sender) item(n provider.Notification) item {
	e := n.Event
	o := e.InvolvedObject
	i := item{
		EventID: eventID(n.DeliveryID), Timestamp: e.Timestamp, Platform: "other", Environment: s.environment,
		ServerName: provider.Truncate(e.ReportingController, maxTag), Transaction: provider.Truncate(o.Kind+": "+o.Namespace+"/"+o.Name, maxTag),
		Message: provider.Truncate(e.Message, maxMessage), Tags: tags(n),
	}
	if s.issues != nil {
		i.Tags[objectTag] = s.issues.object(o)
	}
	if e.Timestamp.IsZero() {
		i.Timestamp = s.now().UTC()
	}
	if !provider.Failed(n) {
		i.Type, i.Start = "transaction", i.Timestamp
		i.Contexts = map[string]trace{"trace": {TraceID: i.EventID, SpanID: i.EventID[:16], Op: "event", Status: "ok"}}
		return i
	}
	i.Level = "error"
	i.Fingerprint = []string{provider.ObjectID(n), provider.Truncate(e.Reason, maxTag)}
	i.Extra = provider.FactMap(n, maxFact)
	return i
}

// eventID returns 32 hexadecimal digits. A delivery's ID has that form already.
func eventID(delivery string) string {
	if raw, err := hex.DecodeString(delivery); err == nil && len(raw) == 16 {
		return hex.EncodeToString(raw)
	}
	digest := sha256.Sum256([]byte(delivery))
	return hex.EncodeToString(digest[:16])
}

// tags returns the tags of Flux and, for a transaction, the metadata.
func tags(n provider.Notification) map[string]string {
	e := n.Event
	all := map[string]string{}
	put := func(key, value string) {
		if value = strings.TrimSpace(strings.Map(oneLine, value)); key != "" && value != "" {
			all[key] = provider.Truncate(value, maxTag)
		}
	}
	if !provider.Failed(n) {
		for _, f := range provider.Facts(n, maxTag) {
			put(strings.Map(keyRune, f.Name), f.Value)
		}
	}
	put("flux_involved_object_kind", e.InvolvedObject.Kind)
	put("flux_involved_object_namespace", e.InvolvedObject.Namespace)
	put("flux_involved_object_name", e.InvolvedObject.Name)
	put("flux_reporting_controller", e.ReportingController)
	put("flux_reporting_instance", e.ReportingInstance)
	put("flux_reason", e.Reason)
	return all
}

// oneLine replaces the characters that a tag's value may not have.
func oneLine(r rune) rune {
	if r < ' ' || r == 0x7F {
		return ' '
	}
	return r
}

// keyRune replaces the characters that a tag's key may not have.
func keyRune(r rune) rune {
	if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._:-", r) {
		return r
	}
	return '_'
}
