package telegram

import (
	"strings"

	"notifier/internal/alerts/provider"
)

// The parts of sendMessage that are used here, in the names of the Bot API.

type message struct {
	ChatID             string          `json:"chat_id"`
	MessageThreadID    int64           `json:"message_thread_id,omitempty"`
	Text               string          `json:"text"`
	Entities           []entity        `json:"entities"`
	LinkPreviewOptions map[string]bool `json:"link_preview_options"`
}

// entity is a range of the text in UTF-16 code units.
type entity struct {
	Type   string `json:"type"`
	Offset int    `json:"offset"`
	Length int    `json:"length"`
}

const (
	maxText   = 4096 // UTF-16 code units
	maxObject = 300
)

// sizes are in UTF-16 code units.
var sizes = []provider.Size{{3600, 500}, {3200, 250}, {2800, 100}, {2000, 50}, {1800, 20}}

// text builds the text of a message.
type text struct {
	strings.Builder
	length   int
	entities []entity
}

func (t *text) add(s string) {
	t.WriteString(s)
	t.length += provider.UTF16Len(s)
}

func (t *text) bold(s string) {
	if length := provider.UTF16Len(s); length > 0 {
		t.entities = append(t.entities, entity{Type: "bold", Offset: t.length, Length: length})
	}
	t.add(s)
}

// newMessage returns the notification with as much of the event as fits, for no chat yet.
func newMessage(n provider.Notification) message {
	t := provider.Shrink(sizes, maxText, func(t *text) int { return t.length }, func(s provider.Size) *text {
		return newText(n, s.Message, s.Fact)
	})
	return message{Text: t.String(), Entities: t.entities, LinkPreviewOptions: map[string]bool{"is_disabled": true}}
}

func newText(n provider.Notification, maxMessage, maxFact int) *text {
	e := n.Event
	t := new(text)
	sign := provider.BySeverity(e, "💫 ", "🚨 ")
	o := e.InvolvedObject
	t.bold(provider.FitUTF16(sign+strings.ToLower(o.Kind)+"/"+o.Name+"/"+o.Namespace, maxObject, provider.BreakMentions))
	if m := strings.TrimSpace(e.Message); m != "" {
		t.add("\n" + provider.FitUTF16(m, maxMessage, provider.BreakMentions))
	}
	facts := provider.Facts(n, maxFact)
	if len(facts) > 0 {
		t.add("\n")
	}
	for _, f := range facts {
		markup := f.Markup(provider.BreakMentions, provider.AsIs)
		t.add("\n- ")
		t.bold(provider.FitUTF16(f.Name, maxFact, markup))
		t.add(": " + provider.FitUTF16(f.Value, maxFact, markup))
	}
	return t
}
