package zulip

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"notifier/internal/alerts/provider"
)

// New returns a Sender to one topic, which posts a notification as one message. Channel, username and password are required.
func New(cfg provider.Config) (*provider.Client, error) {
	channel, topic, err := divide(cfg.Channel)
	if err != nil {
		return nil, err
	}
	return provider.NewClient(cfg, provider.ClientOptions{
		Login: login, Word: word, Wait: wait, Limit: provider.LimitOn(provider.Limit{Rate: 200.0 / 60, Burst: 10}, "zulipchat.com", "zulip.com"),
		Message: func(c *provider.Client, n provider.Notification) (provider.Request, error) {
			u := c.URL()
			u.Path, u.RawPath = "/api/v1/messages", ""
			form := url.Values{"type": {"stream"}, "to": {channel}, "topic": {topic}, "content": {content(n)}}
			return provider.Request{
				URL: u, Body: []byte(form.Encode()), Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
			}, nil
		},
	})
}

// divide returns the channel and the topic of spec.channel.
func divide(text string) (channel, topic string, err error) {
	channel, topic, _ = strings.Cut(text, "/")
	if channel == "" || topic == "" {
		return "", "", errors.New("spec.channel is not of the form <channel>/<topic>")
	}
	return channel, provider.Truncate(printable(topic), maxTopic), nil
}

// login returns the header that logs in as the bot.
func login(cfg provider.Config) (http.Header, error) {
	return provider.Basic(cfg.Username, cfg.Password)
}

// word returns the part of a refusal's answer that is shown: an error of Zulip's API that it may answer to a message.
var word = provider.WordAt("code",
	"BAD_REQUEST", "INVALID_API_KEY", "RATE_LIMIT_HIT", "REALM_DEACTIVATED", "REQUEST_VARIABLE_INVALID", "REQUEST_VARIABLE_MISSING",
	"STREAM_DOES_NOT_EXIST", "TOPIC_WILDCARD_MENTION_NOT_ALLOWED", "STREAM_WILDCARD_MENTION_NOT_ALLOWED", "UNAUTHORIZED_PRINCIPAL",
	"UNAUTHENTICATED_USER", "USER_DEACTIVATED",
)

// wait returns the time that Zulip asks to wait.
var wait = provider.WaitAt("retry-after")

const (
	maxTopic   = 60     // characters
	maxContent = 10_000 // characters
	maxObject  = 300
)

// sizes are in characters.
var sizes = []provider.Size{{9000, 1000}, {8000, 500}, {7000, 100}, {5000, 60}}

// content returns the notification with as much of the event as fits.
func content(n provider.Notification) string {
	return provider.Shrink(sizes, maxContent, utf8.RuneCountInString, func(s provider.Size) string {
		return compose(n, s.Message, s.Fact)
	})
}

func compose(n provider.Notification, maxMessage, maxFact int) string {
	e := n.Event
	sign := provider.BySeverity(e, "✅", "💣")
	var b strings.Builder
	fmt.Fprintf(&b, "%s **%s**", sign, provider.FitRunes(e.InvolvedObject.String(), maxObject, escape))
	if m := strings.TrimSpace(e.Message); m != "" {
		b.WriteString("\n\n" + provider.FitRunes(m, maxMessage, escape))
	}
	separator := "\n\n* "
	for _, f := range provider.Facts(n, maxFact) {
		markup := f.Markup(escape, provider.ReplaceControls)
		name := strings.ReplaceAll(provider.FitRunes(f.Name, maxFact, markup), "\n", " ")
		fmt.Fprintf(&b, "%s**%s**: %s", separator, name, provider.FitRunes(f.Value, maxFact, markup))
		separator = "\n* "
	}
	return b.String()
}

// escape returns s as text that notifies nobody and hides no address.
func escape(s string) string {
	return provider.BreakLinks(provider.BreakMentions(provider.ReplaceControls(s)))
}

// printable returns s on one line. Zulip refuses a topic with control characters.
func printable(s string) string {
	return strings.Join(strings.Fields(provider.ReplaceControls(s)), " ")
}
