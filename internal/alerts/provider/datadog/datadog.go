package datadog

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"notifier/internal/alerts/provider"
)

// The API's limits.
const (
	maxTitle = 500            // characters
	maxText  = 4000           // characters
	maxTag   = 200            // characters
	maxKey   = 100            // characters of the aggregation key
	maxAge   = 18 * time.Hour // of an event, minus onTheWay
	onTheWay = 15 * time.Minute
)

// firstSite is the API of Datadog's first site, to which Flux's controller sends if there is no address.
const firstSite = "https://api.datadoghq.com"

// Sender sends to one organization of Datadog.
type Sender struct {
	provider.Recoveries
	*provider.Client
	now func() time.Time
}

// New returns a Sender. It needs a token. Without an address it sends to firstSite.
func New(cfg provider.Config) (*Sender, error) {
	cfg.Address = cmp.Or(strings.TrimSpace(cfg.Address), firstSite)
	return newAt(cfg)
}

// newAt is New for an address.
func newAt(cfg provider.Config) (*Sender, error) {
	client, err := provider.NewClient(cfg, provider.ClientOptions{Login: provider.TokenIn("DD-API-KEY", ""), Word: word, Wait: wait})
	if err != nil {
		return nil, err
	}
	return &Sender{Client: client, now: time.Now}, nil
}

// word returns the part of a refusal's answer that is shown: a text by which the API refuses a request.
var word = provider.WordIn("errors",
	"API key required", "Forbidden", "Invalid API key", "Payload is not in the expected format.", "Too many requests", "Unauthorized",
)

// wait returns the rest of the period in which no more requests are accepted.
var wait = provider.WaitIn("X-RateLimit-Reset")

// request is one event as the API takes it.
type request struct {
	Title          string   `json:"title"`
	Text           string   `json:"text"`
	Tags           []string `json:"tags"`
	AlertType      string   `json:"alert_type"`
	AggregationKey string   `json:"aggregation_key"`
	SourceTypeName string   `json:"source_type_name"`
	DateHappened   int64    `json:"date_happened,omitempty"`
}

// Send posts the event.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	return s.Recoveries.Send(n, func() error { return s.send(ctx, n) })
}

func (s *Sender) send(ctx context.Context, n provider.Notification) error {
	e := n.Event
	o := e.InvolvedObject
	r := request{
		Title:          quiet(fmt.Sprintf("Events from the %s %s/%s", o.Kind, o.Name, o.Namespace), maxTitle),
		Text:           quiet(e.Message, maxText),
		Tags:           tags(n),
		AlertType:      "info",
		AggregationKey: provider.Truncate(provider.ObjectID(n), maxKey),
		SourceTypeName: "fluxcd",
	}
	r.Text = cmp.Or(r.Text, r.Title) // the API requires a text
	switch {
	case provider.Failed(n):
		r.AlertType = "error"
	case provider.Recovered(n):
		r.AlertType = "success"
	}
	if age := s.now().Sub(e.Timestamp); age < maxAge-onTheWay && age > -time.Hour {
		r.DateHappened = e.Timestamp.Unix()
	}
	return s.Post(ctx, provider.Request{URL: s.Root("/api/v1/events"), JSON: r})
}

// tags returns the tags of Datadog's integrations for Flux and Kubernetes, and the metadata, in lower case.
func tags(n provider.Notification) []string {
	e := n.Event
	all := make([]string, 0, 8)
	put := func(key, value string) {
		if value = strings.TrimSpace(value); value != "" {
			all = append(all, provider.Truncate(strings.ToLower(key+":"+value), maxTag))
		}
	}
	put("flux_reporting_controller", e.ReportingController)
	put("flux_reason", e.Reason)
	put("kube_kind", e.InvolvedObject.Kind)
	put("kube_name", e.InvolvedObject.Name)
	put("kube_namespace", e.InvolvedObject.Namespace)
	for _, f := range provider.Facts(n, maxTag) {
		put(f.Name, f.Value)
	}
	return all
}

// breaker keeps text from being Markdown or a mention by invisible characters. No three % are adjacent in its result.
var breaker = strings.NewReplacer("%%", "%\u200B%", "@", "@\u200B")

// quiet returns s as text that notifies nobody, of at most limit characters.
func quiet(s string, limit int) string {
	for keep := limit; ; keep -= max(keep/4, 1) {
		text := breaker.Replace(provider.Truncate(s, keep))
		if cut := provider.Truncate(text, limit); cut == text {
			return text
		}
	}
}
