package mattermost

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/slack"
)

// Sender sends to one webhook or channel.
type Sender struct {
	*provider.Client
	// api is the address of posts, nil for a webhook.
	api               *url.URL
	channel, username string
}

var channelID = regexp.MustCompile(`^[a-z0-9]{26}$`)

// New returns a Sender. For the API, token and channel are required.
func New(cfg provider.Config) (*Sender, error) {
	s := &Sender{channel: cfg.Channel, username: cfg.Username}
	var err error
	if s.Client, err = provider.NewClient(cfg, provider.ClientOptions{Login: provider.Config.Bearer, Word: word}); err != nil {
		return nil, err
	}
	if strings.Contains(s.URL().Path, "/hooks/") {
		return s, nil
	}
	switch {
	case cfg.Token == "":
		return nil, fmt.Errorf("the address is no incoming webhook (…/hooks/…), and %w", provider.CheckKey("token", cfg.Token))
	case !channelID.MatchString(cfg.Channel):
		return nil, errors.New("spec.channel is no ID of a channel, 26 letters and digits that the channel's information shows; the API needs it")
	}
	s.api = s.URL("api", "v4", "posts")
	return s, nil
}

// Send posts the notification as one attachment.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	attachments := []slack.Attachment{newAttachment(n)}
	var message any = slack.Message{Channel: s.channel, Username: s.username, Attachments: attachments}
	if s.api != nil {
		message = post{ChannelID: s.channel, PendingPostID: n.DeliveryID, Props: map[string][]slack.Attachment{"attachments": attachments}}
	}
	return s.Post(ctx, provider.Request{URL: s.api, JSON: message})
}

// post is a message of Mattermost's API.
type post struct {
	ChannelID     string                        `json:"channel_id"`
	Message       string                        `json:"message"`
	PendingPostID string                        `json:"pending_post_id"`
	Props         map[string][]slack.Attachment `json:"props"`
}

const (
	maxText = 7500 // characters
	maxFact = 1000
	maxLine = 300 // characters of the line shown in a push notification
)

func newAttachment(n provider.Notification) slack.Attachment {
	e := n.Event
	object := provider.FitRunes(e.InvolvedObject.String(), maxLine, plain)
	line, _, _ := strings.Cut(strings.TrimSpace(e.Message), "\n")
	a := slack.Attachment{
		Fallback: object + ": " + provider.FitRunes(line, maxLine, plain), Color: provider.BySeverity(e, "good", "danger"),
		AuthorName: object, Text: provider.FitRunes(e.Message, maxText, escape),
	}
	for _, f := range provider.Facts(n, maxFact) {
		a.Fields = append(a.Fields, slack.Field{
			Title: provider.FitRunes(f.Name, maxFact, f.Markup(plain, provider.ReplaceControls)),
			Value: provider.FitRunes(f.Value, maxFact, f.Markup(escape, provider.ReplaceControls)),
		})
	}
	return a
}

var backslashes = provider.Backslashes("\\`*_{}[]#|~!")

// reference matches the references of HTML to characters, such as "&#64;" for "@".
var reference = regexp.MustCompile(`&(#?[0-9A-Za-z]+;)`)

// escape returns s as text that Mattermost shows unchanged. In addresses it escapes the references to characters alone. Mattermost looks for
// mentions once it has replaced these, and takes some addresses for text, such as those whose host has a "_".
func escape(s string) string {
	s = provider.BreakMentions(provider.ReplaceControls(s))
	return provider.EscapeText(s, func(s string) string { return provider.EscapeEntities(backslashes(s)) }, func(address string) string {
		return reference.ReplaceAllString(address, "&amp;$1")
	})
}

// plain returns s for a place where only some clients obey Markdown.
func plain(s string) string {
	return provider.BreakLabels(provider.BreakMentions(provider.ReplaceControls(s)))
}

// word returns the part of a refusal's answer that is shown: the ID of an error that Mattermost may answer to a message.
var word = provider.WordAt("id",
	"api.context.invalid_body_param.app_error", "api.context.invalid_token.error", "api.context.permissions.app_error",
	"api.context.session_expired.app_error", "api.post.create_post.can_not_post_to_deleted.error",
	"api.post.create_post.town_square_read_only",
	"app.channel.get.existing.app_error", "web.incoming_webhook.channel.app_error", "web.incoming_webhook.channel_locked.app_error",
	"web.incoming_webhook.disabled.app_error", "web.incoming_webhook.invalid.app_error", "web.incoming_webhook.parse.app_error",
	"web.incoming_webhook.permissions.app_error", "web.incoming_webhook.text.app_error", "web.incoming_webhook.user.app_error",
)
