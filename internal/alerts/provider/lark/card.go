package lark

import (
	"cmp"
	"strings"
	"time"

	"notifier/internal/alerts/provider"
)

// The parts of a message that are used here, in the names of Lark's custom bots.

type message struct {
	Timestamp string `json:"timestamp,omitempty"`
	Sign      string `json:"sign,omitempty"`
	MsgType   string `json:"msg_type"`
	Card      card   `json:"card"`
}

type card struct {
	Config   map[string]bool `json:"config"`
	Header   header          `json:"header"`
	Elements []element       `json:"elements"`
}

type header struct {
	Title    text   `json:"title"`
	Template string `json:"template"`
}

type element struct {
	Tag  string `json:"tag"`
	Text text   `json:"text"`
}

type text struct {
	Tag     string `json:"tag"`
	Content string `json:"content"`
}

const (
	maxMessage = 19_000 // bytes of a request; Lark refuses those beyond 20 KB
	maxObject  = 250    // characters
)

// sizes descend to one at which even the worst text fits, every character of which takes six bytes.
var sizes = []provider.Size{{14_000, 1000}, {8000, 500}, {4000, 200}, {2000, 100}, {1500, 50}, {600, 20}}

// body returns the message as JSON, signed with a secret, with as much of the event as fits.
func body(n provider.Notification, secret string, now time.Time) ([]byte, error) {
	m := message{MsgType: "interactive"}
	m.Timestamp, m.Sign = sign(secret, now)
	return provider.ShrinkJSON(sizes, maxMessage, func(s provider.Size) message {
		m.Card = newCard(n, s.Message, s.Fact)
		return m
	})
}

func newCard(n provider.Notification, maxText, maxFact int) card {
	e := n.Event
	sign, template := provider.BySeverity(e, "💫 ", "🚨 "), provider.BySeverity(e, "turquoise", "red")
	c := card{
		Config: map[string]bool{"wide_screen_mode": true},
		Header: header{Title: text{"plain_text", sign + provider.Truncate(e.InvolvedObject.String(), maxObject)}, Template: template},
	}
	// A card must have an element, and an element text.
	message := cmp.Or(escape(provider.Truncate(strings.TrimSpace(e.Message), maxText)), "–")
	c.Elements = []element{markdown(message)}
	var facts []string
	for _, f := range provider.Facts(n, maxFact) {
		name, value := f.Show(escape)
		facts = append(facts, "**"+name+"**: "+value)
	}
	if len(facts) > 0 {
		c.Elements = append(c.Elements, markdown(strings.Join(facts, "\n")))
	}
	return c
}

func markdown(s string) element { return element{Tag: "div", Text: text{"lark_md", s}} }

var references = strings.NewReplacer(
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "*", "&#42;", "_", "&#95;", "~", "&#126;", "`", "&#96;", "[", "&#91;", "]", "&#93;", "(", "&#40;",
	")", "&#41;", "#", "&#35;", "!", "&#33;",
).Replace

// escape returns s as text that Lark's Markdown shows unchanged.
func escape(s string) string { return provider.EscapeText(s, references, nil) }
