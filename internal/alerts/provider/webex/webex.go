package webex

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"notifier/internal/alerts/provider"
)

// New returns a Sender to one space, which posts a notification as one message. For Webex's API, token and channel are required.
func New(cfg provider.Config) (*provider.Client, error) {
	room := cfg.Channel
	client, err := provider.NewClient(cfg, provider.ClientOptions{
		Login: provider.Config.Bearer, Word: word, Temporary: temporary,
		Message: func(_ *provider.Client, n provider.Notification) (provider.Request, error) {
			return provider.Request{JSON: message{RoomID: room, Markdown: markdown(n)}}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	if client.On("webexapis.com") && !strings.Contains(client.URL().Path, "/webhooks/") {
		if err := provider.CheckKey("token", cfg.Token); err != nil {
			return nil, err
		}
		if cfg.Channel == "" {
			return nil, errors.New("the address needs spec.channel, the ID of the room")
		}
	}
	return client, nil
}

type message struct {
	RoomID   string `json:"roomId,omitempty"`
	Markdown string `json:"markdown"`
}

// word returns the part of a refusal's answer that is shown: an error of Webex's API.
var word = provider.WordAt("message",
	"The request requires a valid access token set in the Authorization request header.", "The requested resource could not be found.",
	"The server understood the request, but refused to fulfill it because the access token is missing required scopes or the user "+
		"is missing required roles or licenses.",
)

// temporary reports whether Webex says that the space is unavailable for a time.
func temporary(status int, _ []byte) bool { return status == http.StatusLocked }

const (
	maxMarkdown = 7439 // bytes
	maxObject   = 400
)

// sizes are in bytes.
var sizes = []provider.Size{{6400, 1000}, {5000, 250}, {4000, 100}, {3000, 50}, {2500, 25}}

// markdown returns the notification with as much of the event as fits.
func markdown(n provider.Notification) string {
	return provider.Shrink(sizes, maxMarkdown, provider.Bytes, func(s provider.Size) string { return compose(n, s.Message, s.Fact) })
}

func compose(n provider.Notification, maxMessage, maxFact int) string {
	e := n.Event
	sign := provider.BySeverity(e, "✅", "💣")
	var b strings.Builder
	fmt.Fprintf(&b, "%s **%s**", sign, provider.FitBytes(e.InvolvedObject.String(), maxObject, escape))
	if m := strings.TrimSpace(e.Message); m != "" {
		b.WriteString("  \n" + provider.FitBytes(m, maxMessage, escape))
	}
	separator := "\n\n>"
	for _, f := range provider.Facts(n, maxFact) {
		markup := f.Markup(escape, lines)
		value := strings.ReplaceAll(provider.FitBytes(f.Value, maxFact, markup), "\n", "\n>")
		fmt.Fprintf(&b, "%s**%s**: %s", separator, strings.ReplaceAll(provider.FitBytes(f.Name, maxFact, markup), "\n", " "), value)
		separator = "  \n>"
	}
	return b.String()
}

var (
	backslashes = provider.Backslashes("\\`*_[]#")
	// lines keeps lines apart that Markdown would join.
	lines = strings.NewReplacer("\r\n", "  \n", "\n", "  \n", "\r", " ").Replace
)

// escape returns s as text that Webex shows unchanged.
func escape(s string) string {
	return lines(provider.EscapeText(s, func(s string) string { return backslashes(provider.EscapeEntities(s)) }, provider.EscapeEntities))
}
