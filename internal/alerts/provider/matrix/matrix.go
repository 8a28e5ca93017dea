package matrix

import (
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"strings"
	"time"

	"notifier/internal/alerts/provider"
)

// New returns a Sender to one room, which puts a notification there as one message. Token and channel are required.
func New(cfg provider.Config) (*provider.Client, error) {
	room := cfg.Channel
	client, err := provider.NewClient(cfg, provider.ClientOptions{
		Login: provider.TokenIn("Authorization", "Bearer "), Word: word, Wait: wait,
		Message: func(c *provider.Client, n provider.Notification) (provider.Request, error) {
			body, err := provider.ShrinkJSON(sizes, maxContent, func(s provider.Size) message { return newMessage(n, s.Message, s.Fact) })
			u := c.URL("_matrix", "client", "v3", "rooms", room, "send", "m.room.message", n.DeliveryID)
			return provider.Request{Method: http.MethodPut, URL: u, Body: body}, err
		},
	})
	if !strings.HasPrefix(room, "!") {
		err = errors.Join(err, errors.New("spec.channel is no ID of a room, which begins with an exclamation mark; an alias takes no messages"))
	}
	return client, err
}

type message struct {
	MsgType       string   `json:"msgtype"`
	Body          string   `json:"body"`
	Format        string   `json:"format"`
	FormattedBody string   `json:"formatted_body"`
	Mentions      struct{} `json:"m.mentions"`
}

const (
	maxContent = 56 << 10 // bytes of the content; the whole event has 65,536 with the room, the sender and the signatures
	maxObject  = 250
)

// sizes descend to one at which even the worst text fits, every character of which takes twelve bytes.
var sizes = []provider.Size{{16000, 1000}, {8000, 500}, {4000, 200}, {2000, 100}, {1000, 40}}

func newMessage(n provider.Notification, maxMessage, maxFact int) message {
	e := n.Event
	sign := provider.BySeverity(e, "💫 ", "🚨 ")
	object := sign + text(e.InvolvedObject.String(), maxObject)
	plain, rich := []string{object}, "<strong>"+html.EscapeString(object)+"</strong>"
	if m := text(strings.TrimSpace(e.Message), maxMessage); m != "" {
		plain = append(plain, m)
		rich += "<br>" + strings.ReplaceAll(html.EscapeString(m), "\n", "<br>")
	}
	var items strings.Builder
	for _, f := range provider.Facts(n, maxFact) {
		name, value := text(f.Name, maxFact), text(f.Value, maxFact)
		plain = append(plain, "- "+name+": "+value)
		items.WriteString("<li><strong>" + html.EscapeString(name) + "</strong>: ")
		items.WriteString(strings.ReplaceAll(html.EscapeString(value), "\n", "<br>") + "</li>")
	}
	if items.Len() > 0 {
		rich += "<ul>" + items.String() + "</ul>"
	}
	return message{MsgType: "m.text", Body: strings.Join(plain, "\n"), Format: "org.matrix.custom.html", FormattedBody: rich}
}

func text(s string, maxRunes int) string {
	return provider.ReplaceControls(provider.Truncate(s, maxRunes))
}

// word returns the part of a refusal's answer that is shown: an error of Matrix' specification that a homeserver may
// answer to a message.
var word = provider.WordAt("errcode",
	"M_BAD_JSON", "M_BAD_STATE", "M_FORBIDDEN", "M_GUEST_ACCESS_FORBIDDEN", "M_INVALID_PARAM", "M_LIMIT_EXCEEDED", "M_MISSING_PARAM",
	"M_MISSING_TOKEN", "M_NOT_FOUND", "M_NOT_JSON", "M_RESOURCE_LIMIT_EXCEEDED", "M_TOO_LARGE", "M_UNAUTHORIZED", "M_UNKNOWN",
	"M_UNKNOWN_TOKEN",
	"M_UNRECOGNIZED", "M_USER_DEACTIVATED", "M_USER_LOCKED", "M_USER_SUSPENDED",
)

// wait returns the time that a homeserver asks to wait.
func wait(_ int, _ http.Header, answer []byte) (time.Duration, bool) {
	var r struct {
		Code         string  `json:"errcode"`
		RetryAfterMS float64 `json:"retry_after_ms"`
	}
	if json.Unmarshal(answer, &r) != nil || r.Code != "M_LIMIT_EXCEEDED" {
		return 0, false
	}
	return provider.Seconds(r.RetryAfterMS / 1000), true
}
