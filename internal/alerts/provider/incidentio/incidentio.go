package incidentio

import (
	"context"

	"notifier/internal/alerts/provider"
)

const (
	maxTitle       = 255   // characters
	maxDescription = 20000 // at six bytes per character 120 KB of the 512 KB of a request
	maxFact        = 500   // 33 facts of two texts are 198 KB at worst
)

// Sender sends to one alert source.
type Sender struct {
	provider.Recoveries
	*provider.Client
}

// New returns a Sender. It needs a token.
func New(cfg provider.Config) (*Sender, error) {
	client, err := provider.NewClient(cfg, provider.ClientOptions{Login: provider.TokenIn("Authorization", "Bearer "), Word: word})
	if err != nil {
		return nil, err
	}
	return &Sender{Client: client}, nil
}

// word returns the part of a refusal's answer that is shown: the text by which the API refuses a request.
var word = provider.WordAt("type", "authentication_error", "authorization_error", "not_found", "too_many_requests", "validation_error")

// alertEvent is a request of the alert source.
type alertEvent struct {
	Title            string            `json:"title"`
	Status           string            `json:"status"`
	DeduplicationKey string            `json:"deduplication_key"`
	Description      string            `json:"description,omitempty"`
	Metadata         map[string]string `json:"metadata"`
}

// Send fires the alert of a failure, or resolves the alert of an object that recovered.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	return s.Recoveries.Send(n, func() error { return s.send(ctx, n) })
}

func (s *Sender) send(ctx context.Context, n provider.Notification) error {
	status := "resolved"
	switch {
	case provider.Failed(n):
		status = "firing"
	case !provider.Recovered(n):
		return nil
	}
	e := n.Event
	title := e.InvolvedObject.String()
	if e.Reason != "" {
		title += ": " + e.Reason
	}
	return s.Post(ctx, provider.Request{JSON: alertEvent{
		Title: provider.Truncate(title, maxTitle), Status: status,
		DeduplicationKey: provider.ObjectID(n),
		Description:      provider.BreakLinks(provider.Truncate(e.Message, maxDescription)),
		Metadata:         metadata(n),
	}})
}

// metadata returns the event's metadata with severity, reason and controller, which take precedence over its entries.
func metadata(n provider.Notification) map[string]string {
	all := provider.FactMap(n, maxFact)
	for name, value := range map[string]string{
		"severity": n.Event.Severity, "reason": n.Event.Reason, "reportingController": n.Event.ReportingController,
	} {
		if value != "" {
			all[name] = provider.Truncate(value, maxFact)
		}
	}
	return all
}
