package opsgenie

import (
	"context"
	"net/http"
	"unicode/utf8"

	"notifier/internal/alerts/provider"
)

// The API's limits, in characters.
const (
	maxMessage     = 130
	maxDescription = 15000
	maxNote        = 25000
	maxSource      = 100
	maxDetails     = 8000 // keys and values together
)

// factSizes are the lengths to which keys and values of details are cut.
var factSizes = []int{2000, 500, 110}

// Sender sends to one integration of Opsgenie.
type Sender struct {
	provider.Recoveries
	*provider.Client
	provider string // the Provider's UID
}

// New returns a Sender. It needs a token.
func New(cfg provider.Config) (*Sender, error) {
	client, err := provider.NewClient(cfg, provider.ClientOptions{Login: provider.TokenIn("Authorization", "GenieKey "), Word: word, Wait: wait})
	if err != nil {
		return nil, err
	}
	return &Sender{Client: client, provider: cfg.UID}, nil
}

// word returns the part of a refusal's answer that is shown: the text by which the API refuses a request.
var word = provider.WordAt("message",
	"Could not authenticate", "Key format is not valid!", "You are making too many requests!", "Request body is not processable.",
	"Request body is not processable. Please check the errors.",
)

// wait returns the rest of the period in which no more requests are accepted.
var wait = provider.WaitIn("X-RateLimit-Period-In-Sec")

// alert is a request to create an alert.
type alert struct {
	Message     string            `json:"message"`
	Alias       string            `json:"alias"`
	Description string            `json:"description,omitempty"`
	Details     map[string]string `json:"details"`
	Source      string            `json:"source,omitempty"`
}

// closing is a request to close an alert.
type closing struct {
	Note   string `json:"note,omitempty"`
	Source string `json:"source,omitempty"`
}

// Send creates the alert of a failure, or closes the alert of an object that recovered.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	return s.Recoveries.Send(n, func() error { return s.send(ctx, n) })
}

func (s *Sender) send(ctx context.Context, n provider.Notification) error {
	e := n.Event
	source := provider.Truncate(e.ReportingController, maxSource)
	switch {
	case provider.Failed(n):
		return s.Post(ctx, provider.Request{JSON: alert{
			Message:     provider.Truncate(e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name, maxMessage),
			Alias:       provider.ObjectKey(s.provider, e.InvolvedObject),
			Description: provider.EscapeHTML(e.Message, maxDescription),
			Details:     details(n),
			Source:      source,
		}})
	case provider.Recovered(n):
		u := s.URL(provider.ObjectKey(s.provider, e.InvolvedObject), "close")
		query := u.Query()
		query.Set("identifierType", "alias")
		u.RawQuery = query.Encode()
		err := s.Post(ctx, provider.Request{URL: u, JSON: closing{Note: provider.EscapeHTML(e.Message, maxNote), Source: source}})
		if provider.StatusOf(err) == http.StatusNotFound {
			return nil // nothing is open
		}
		return err
	default:
		return nil
	}
}

// details returns the metadata and the severity, within the API's limit.
func details(n provider.Notification) map[string]string {
	return provider.Shrink(factSizes, maxDetails, length, func(size int) map[string]string {
		all := provider.FactMap(n, size)
		all["severity"] = n.Event.Severity
		return all
	})
}

func length(details map[string]string) (characters int) {
	for name, value := range details {
		characters += utf8.RuneCountInString(name) + utf8.RuneCountInString(value)
	}
	return characters
}
