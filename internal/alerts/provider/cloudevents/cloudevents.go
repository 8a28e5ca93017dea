package cloudevents

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

const (
	specVersion = "1.0"
	typePrefix  = "io.fluxcd.event."
	// maxAttribute is the length of the longest text of an event that becomes an attribute, in characters. The binding encodes one
	// character by up to twelve.
	maxAttribute = 253
)

// Sender sends to one address.
type Sender struct {
	*provider.Client
	provider.Headers
}

// New returns a Sender.
func New(cfg provider.Config) (*Sender, error) {
	bearer, tokenErr := cfg.Bearer()
	headers, headerErr := provider.NewHeaders(cfg.Headers, "Ce-*", "Content-Type")
	client, clientErr := provider.NewClient(cfg, provider.ClientOptions{TakesPages: true})
	if err := errors.Join(tokenErr, headerErr, clientErr); err != nil {
		return nil, err
	}
	for name, values := range bearer {
		if headers.Sent[name] == nil {
			headers.Sent[name] = values
		}
	}
	return &Sender{Client: client, Headers: headers}, nil
}

// Send posts the notification's event.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	h := s.Sent.Clone()
	for name, value := range attributes(n) {
		if value != "" {
			h["Ce-"+name] = []string{event.PercentEncode(strings.ToValidUTF8(value, "\uFFFD"))}
		}
	}
	return s.Post(ctx, provider.Request{Header: h, JSON: n.Event})
}

// attributes returns the event's context attributes and extensions, by their names in a header.
func attributes(n provider.Notification) map[string]string {
	e, o := n.Event, n.Event.InvolvedObject
	severity := provider.Truncate(cmp.Or(e.Severity, event.SeverityInfo), maxAttribute)
	a := map[string]string{
		"Id": n.DeliveryID, "Specversion": specVersion,
		"Source":  "/namespaces/" + strings.Join([]string{url.PathEscape(o.Namespace), url.PathEscape(o.Kind), url.PathEscape(o.Name)}, "/"),
		"Type":    typePrefix + severity,
		"Subject": o.String(), "Reason": provider.Truncate(e.Reason, maxAttribute), "Severity": severity,
	}
	if !e.Timestamp.IsZero() {
		a["Time"] = e.Timestamp.UTC().Format(time.RFC3339Nano)
	}
	return a
}
