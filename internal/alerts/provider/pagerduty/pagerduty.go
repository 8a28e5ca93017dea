package pagerduty

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

const (
	maxName    = 255   // characters of a short field, and of a reason within a summary
	maxMessage = 20000 // at six bytes per character 120 KB of the 512 KB of a request
	maxFact    = 500   // 33 facts of two texts are 198 KB at worst
)

// Sender sends to one integration of PagerDuty.
type Sender struct {
	provider.Recoveries
	*provider.Client
	key string
}

// New returns a Sender. It needs an integration's key, as spec.channel or as the Secret's token.
func New(cfg provider.Config) (*Sender, error) {
	s := &Sender{key: cmp.Or(strings.TrimSpace(cfg.Channel), strings.TrimSpace(cfg.Token))}
	if s.key == "" {
		return nil, fmt.Errorf("spec.channel has no integration key, and %w", provider.CheckKey("token", ""))
	}
	var err error
	// PagerDuty's published limit for one key, halved since a recovery is two events
	limit := provider.LimitOn(provider.Limit{Rate: 1, Burst: 10}, "pagerduty.com")
	if s.Client, err = provider.NewClient(cfg, provider.ClientOptions{Word: word, Limit: limit}); err != nil {
		return nil, err
	}
	return s, nil
}

// status and fault return the texts by which the API refuses a request.
var (
	status = provider.WordAt("status", "invalid event", "throttle exceeded")
	fault  = provider.WordIn("errors",
		"'routing_key' is missing or blank", "Length of 'routing_key' is incorrect (should be 32 characters)", "Invalid routing key",
		"'event_action' is invalid", "'payload.summary' is missing or blank",
	)
)

// word returns the part of a refusal's answer that is shown: the first known fault or, without one, the status.
func word(answer []byte) string { return cmp.Or(fault(answer), status(answer)) }

// alertEvent is a request of /v2/enqueue.
type alertEvent struct {
	RoutingKey  string   `json:"routing_key"`
	EventAction string   `json:"event_action"`
	DedupKey    string   `json:"dedup_key"`
	Payload     *payload `json:"payload,omitempty"`
}

type payload struct {
	Summary   string    `json:"summary"`
	Source    string    `json:"source"`
	Severity  string    `json:"severity,omitempty"`
	Timestamp time.Time `json:"timestamp,omitzero"`
	Component string    `json:"component,omitempty"`
	Group     string    `json:"group,omitempty"`
	Class     string    `json:"class,omitempty"`
	Details   details   `json:"custom_details"`
}

type details struct {
	Message  string            `json:"message"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// changeEvent is a request of /v2/change/enqueue.
type changeEvent struct {
	RoutingKey string  `json:"routing_key"`
	Payload    payload `json:"payload"`
}

// Send triggers or resolves the object's alert. It sends a change event unless the event is a failure or only closes.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	return s.Recoveries.Send(n, func() error { return s.send(ctx, n) })
}

func (s *Sender) send(ctx context.Context, n provider.Notification) error {
	return s.Call(ctx, func(ctx context.Context) error {
		if provider.Failed(n) {
			return s.post(ctx, "/v2/enqueue", s.trigger(n))
		}
		if provider.Recovered(n) {
			resolve := alertEvent{RoutingKey: s.key, EventAction: "resolve", DedupKey: dedupKey(n)}
			if err := s.post(ctx, "/v2/enqueue", resolve); err != nil {
				return err
			}
		}
		if provider.ClosesOnly(n) {
			return nil
		}
		if err := s.post(ctx, "/v2/change/enqueue", s.change(n)); err != nil {
			return provider.At("change event", err)
		}
		return nil
	})
}

func (s *Sender) post(ctx context.Context, path string, body any) error {
	_, err := s.Do(ctx, provider.Request{URL: s.Root(path), JSON: body})
	return err
}

func (s *Sender) trigger(n provider.Notification) alertEvent {
	e := n.Event
	return alertEvent{RoutingKey: s.key, EventAction: "trigger", DedupKey: dedupKey(n), Payload: &payload{
		Summary: summary(e), Source: source(e), Severity: event.SeverityError, Timestamp: e.Timestamp,
		Component: provider.Truncate(e.InvolvedObject.Name, maxName),
		Group:     provider.Truncate(e.InvolvedObject.Kind, maxName),
		Class:     provider.Truncate(e.Reason, maxName),
		Details:   detailsOf(n),
	}}
}

func (s *Sender) change(n provider.Notification) changeEvent {
	return changeEvent{RoutingKey: s.key, Payload: payload{
		Summary: summary(n.Event), Source: source(n.Event), Timestamp: n.Event.Timestamp, Details: detailsOf(n),
	}}
}

// dedupKey returns the object's UID, or its digest if it has none, cut in case it is no UID.
func dedupKey(n provider.Notification) string {
	return provider.Truncate(provider.ObjectID(n), maxName)
}

func source(e event.Event) string {
	return provider.Truncate(strings.TrimSpace("Flux "+e.ReportingController), maxName)
}

// summary returns the reason in words, and the object. The bounds on an event's object keep it below PagerDuty's 1,024 characters.
func summary(e event.Event) string {
	object := strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name
	if words := inWords(provider.Truncate(e.Reason, maxName)); words != "" {
		object = words + ": " + object
	}
	return object
}

// inWords returns "HealthCheckFailed" as "health check failed".
func inWords(reason string) string {
	var b strings.Builder
	var previous rune
	for _, r := range reason {
		if unicode.IsUpper(r) && unicode.IsLower(previous) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
		previous = r
	}
	return b.String()
}

func detailsOf(n provider.Notification) details {
	return details{Message: provider.Truncate(n.Event.Message, maxMessage), Metadata: provider.FactMap(n, maxFact)}
}
