package slack

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// domains are Slack's own: slack.com and its copy for the United States' government.
var domains = []string{"slack.com", "slack-gov.com"}

// method is the API's method that posts a message.
const method = "chat.postMessage"

const (
	maxText     = 7500 // characters of the message, escaped; Slack cuts at 8,000
	maxFact     = 1000 // characters of a field's title or value
	maxName     = 80   // characters of the author's name that Slack accepts
	maxFallback = 300  // characters of the line shown in a desktop notification
	// maxReply is the length of the API's longest answer in bytes. An answer repeats the message, with escapes.
	maxReply = 512 << 10
)

// Sender sends to one channel or webhook, and posts a notification as one attachment.
type Sender struct {
	*provider.Client
	onSlack bool
	// api is the address of chat.postMessage at Slack, nil for an incoming webhook, or for another server.
	api               *url.URL
	channel, username string
}

// New returns a Sender. For the API, token and channel are required.
func New(cfg provider.Config) (*Sender, error) {
	s := &Sender{channel: cfg.Channel, username: cfg.Username}
	u, err := url.Parse(strings.TrimSpace(cfg.Address))
	if err != nil {
		u = &url.URL{} // NewClient refuses such an address
	}
	s.onSlack = provider.Within(u.Hostname(), domains...)
	o := provider.ClientOptions{
		Login: provider.Config.Bearer, Word: word, TakesPages: !s.onSlack,
		Message: func(_ *provider.Client, n provider.Notification) (provider.Request, error) {
			return provider.Request{URL: s.api, JSON: s.message(n)}, nil
		},
	}
	if s.api, err = apiOf(u); err != nil {
		return nil, err
	}
	if s.api != nil {
		if err := provider.CheckKey("token", cfg.Token); err != nil {
			return nil, err
		}
		if cfg.Channel == "" {
			return nil, errors.New("chat.postMessage needs spec.channel")
		}
		o.MaxReply, o.Outcome = maxReply, outcome
	} else if strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/"+method) {
		o.MaxReply, o.Outcome = maxReply, outcomeBehind
	}
	if s.Client, err = provider.NewClient(cfg, o); err != nil {
		return nil, err
	}
	return s, nil
}

// apiOf returns the address of chat.postMessage if an address is on Slack's API, nil for an incoming webhook. The API refuses a message with
// HTTP 200, so no form of its address may pass for a webhook's.
func apiOf(u *url.URL) (*url.URL, error) {
	switch {
	case !provider.Within(u.Hostname(), domains...) || !strings.HasPrefix(u.Path, "/api/"):
		return nil, nil
	case strings.TrimSuffix(u.Path, "/") != "/api/"+method:
		return nil, errors.New("address is on Slack's API, and its method is not chat.postMessage")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/api/" + method}, nil
}

// OnSlack reports whether the address is Slack's own. Other servers take its webhooks too.
func (s *Sender) OnSlack() bool { return s.onSlack }

// The parts of a message that are used here, in the names of Slack's webhooks and API. Mattermost and Rocket.Chat have them too.

// Message is a message of a webhook.
type Message struct {
	Channel     string       `json:"channel,omitempty"`
	Username    string       `json:"username,omitempty"`
	Attachments []Attachment `json:"attachments"`
}

// Attachment is the part of a Message that shows an event. MarkdownIn is Slack's alone, and Time Rocket.Chat's.
type Attachment struct {
	Fallback   string   `json:"fallback,omitempty"`
	Color      string   `json:"color"`
	AuthorName string   `json:"author_name"`
	Text       string   `json:"text"`
	MarkdownIn []string `json:"mrkdwn_in,omitempty"`
	Time       string   `json:"ts,omitempty"`
	Fields     []Field  `json:"fields,omitzero"`
}

// Field is a fact.
type Field struct {
	Title string `json:"title"`
	Value string `json:"value"`
	Short bool   `json:"short"`
}

func (s *Sender) message(n provider.Notification) Message {
	e := n.Event
	object := s.escape(e.InvolvedObject.String(), maxFallback)
	line, _, _ := strings.Cut(strings.TrimSpace(e.Message), "\n")
	a := Attachment{
		Fallback:   object + ": " + s.escape(line, maxFallback),
		Color:      provider.BySeverity(e, "good", "danger"),
		AuthorName: object,
		Text:       s.escape(e.Message, maxText),
		MarkdownIn: []string{"text"},
	}
	for _, f := range provider.Facts(n, maxFact) {
		title, value := f.Show(func(text string) string { return s.escape(text, maxFact) })
		a.Fields = append(a.Fields, Field{Title: title, Value: value})
		if f.Authored && len(a.MarkdownIn) == 1 {
			a.MarkdownIn = append(a.MarkdownIn, "fields") // without it Slack shows a field's markup as plain text
		}
	}
	username := provider.Truncate(cmp.Or(s.username, e.ReportingController), maxName)
	return Message{Channel: s.channel, Username: username, Attachments: []Attachment{a}}
}

// escape returns text, cut, in a form that notifies nobody and hides no address. At Slack itself "@channel" and Markdown have no effect;
// Mattermost, for one, obeys both.
func (s *Sender) escape(text string, limit int) string {
	if s.onSlack {
		return provider.EscapeHTML(text, limit)
	}
	return provider.FitRunes(text, limit, func(text string) string {
		return provider.EscapeEntities(provider.BreakLinks(provider.BreakMentions(text)))
	})
}

// busy are the API's codes for faults that may pass by themselves. refused are those after which the configuration has to change. Both
// lists are closed: an unknown code is the destination's own text and is not shown.
var (
	busy = []string{
		"message_limit_exceeded", "service_unavailable", "internal_error", "fatal_error",
		"request_timeout", "team_added_to_org", "org_login_required",
	}
	refused = []string{
		"access_denied", "accesslimited", "account_inactive", "as_user_not_supported", "attachment_payload_limit_exceeded",
		"channel_not_found", "deprecated_endpoint", "duplicate_channel_not_found", "ekm_access_denied",
		"enterprise_is_restricted", "invalid_arguments", "invalid_auth", "is_archived", "messages_tab_disabled",
		"method_deprecated", "missing_scope", "msg_too_long", "no_permission", "no_text", "not_allowed_token_type", "not_authed",
		"not_in_channel", "restricted_action", "restricted_action_non_threadable_channel",
		"restricted_action_read_only_channel", "restricted_action_thread_only_channel", "team_access_not_granted",
		"team_not_found", "token_expired", "token_revoked", "too_many_attachments", "two_factor_setup_required",
	}
)

// answers are the short answers by which incoming webhooks and workflows refuse a message.
var answers = []string{
	"action_prohibited", "channel_is_archived", "invalid_payload", "invalid_token", "invalid_workflow_input", "no_active_hooks", "no_service",
	"no_service_id", "no_team", "posting_to_general_channel_denied", "rollup_error", "service_disabled", "team_disabled",
	"trigger_not_found", "user_not_found", "workflow_not_published",
}

// word returns the part of a refusal's answer that is shown. A webhook answers a word, a workflow and the API a word in JSON.
var word = provider.WordOrAt("error", slices.Concat(answers, refused, busy)...)

// outcomeBehind is outcome for a server other than Slack, which may be a gateway to the API. An answer that is not the API's refusal is taken
// for a success, as that of a webhook.
func outcomeBehind(answer []byte) error {
	var reply struct {
		OK    *bool  `json:"ok"`
		Error string `json:"error"`
	}
	if json.Unmarshal(answer, &reply) != nil || reply.OK == nil || *reply.OK || reply.Error == "" {
		return nil
	}
	return outcome(answer)
}

// outcome classifies an answer of the API. Only one that says "ok": true is a success.
func outcome(answer []byte) error {
	var reply struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	if err := provider.DecodeJSON(answer, &reply, "Slack's API"); err != nil {
		return err
	}
	switch code := reply.Error; {
	case reply.OK:
		return nil
	case code == "ratelimited" || code == "rate_limited":
		return event.NewError(event.Retry, provider.LabelLimited, "Slack: "+code, nil)
	case slices.Contains(busy, code):
		return event.NewError(event.Retry, provider.LabelRejected, "Slack: "+code, nil)
	case slices.Contains(refused, code):
		return event.NewError(event.Permanent, provider.LabelRejected, "Slack: "+code, nil)
	default:
		return event.NewError(event.Retry, provider.LabelRejected, "Slack refused the message with an unknown code", nil)
	}
}
