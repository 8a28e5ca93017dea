package rocket

import (
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/slack"
)

// New returns a Sender to one webhook, which posts a notification as one attachment.
func New(cfg provider.Config) (*provider.Client, error) {
	channel, username := cfg.Channel, cfg.Username
	return provider.NewClient(cfg, provider.ClientOptions{Word: word, Message: func(_ *provider.Client, n provider.Notification) (provider.Request, error) {
		return provider.Request{JSON: slack.Message{Channel: channel, Username: username, Attachments: []slack.Attachment{newAttachment(n)}}}, nil
	}})
}

const (
	maxMessage = 5000 // characters of a whole message
	maxName    = 300
)

// sizes are in characters.
var sizes = []provider.Size{{4600, 1000}, {4000, 250}, {3500, 100}, {2500, 50}, {2000, 30}}

// newAttachment returns the notification with as much of the event as fits.
func newAttachment(n provider.Notification) slack.Attachment {
	e := n.Event
	a := slack.Attachment{Color: provider.BySeverity(e, "#0076D7", "#FF0000"), AuthorName: provider.FitUTF16(e.InvolvedObject.String(), maxName, escape)}
	if !e.Timestamp.IsZero() {
		a.Time = e.Timestamp.UTC().Format(time.RFC3339)
	}
	return provider.Shrink(sizes, maxMessage, size, func(s provider.Size) slack.Attachment {
		a.Text, a.Fields = provider.FitUTF16(e.Message, s.Message, escape), fields(n, s.Fact)
		return a
	})
}

func size(a slack.Attachment) int {
	size := provider.UTF16Len(a.AuthorName) + provider.UTF16Len(a.Text)
	for _, f := range a.Fields {
		size += provider.UTF16Len(f.Title) + provider.UTF16Len(f.Value)
	}
	return size
}

func fields(n provider.Notification, limit int) []slack.Field {
	shown := []slack.Field{}
	for _, f := range provider.Facts(n, limit) {
		markup := f.Markup(escape, provider.AsIs)
		shown = append(shown, slack.Field{Title: provider.FitUTF16(f.Name, limit, markup), Value: provider.FitUTF16(f.Value, limit, markup)})
	}
	return shown
}

// escape returns s as text that notifies nobody and hides no address.
func escape(s string) string { return provider.BreakLabels(provider.BreakMentions(s)) }

// word returns the part of a refusal's answer that is shown: an error of Rocket.Chat's webhooks.
var word = provider.WordAt("error",
	"Invalid integration id or token provided.", "error-action-not-allowed", "error-invalid-channel", "error-invalid-room",
	"error-not-allowed",
	"error-room-archived", "error-room-is-closed", "invalid-channel", "invalid-channel-or-username", "unauthorized",
)
