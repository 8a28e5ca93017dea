package googlechat

import (
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// The parts of a message that are used here, in the names of Google Chat's API.

type message struct {
	FallbackText string            `json:"fallbackText"`
	CardsV2      []cardWithID      `json:"cardsV2"`
	Thread       map[string]string `json:"thread,omitempty"`
}

type cardWithID struct {
	CardID string `json:"cardId"`
	Card   card   `json:"card"`
}

type card struct {
	Header   header                `json:"header"`
	Sections []map[string][]widget `json:"sections"`
}

type header struct {
	Title    string `json:"title"`
	Subtitle string `json:"subtitle,omitempty"`
}

type widget struct {
	TextParagraph map[string]string `json:"textParagraph,omitempty"`
	DecoratedText *decoratedText    `json:"decoratedText,omitempty"`
}

type decoratedText struct {
	TopLabel string `json:"topLabel,omitempty"`
	Text     string `json:"text"`
	WrapText bool   `json:"wrapText"`
}

const (
	maxMessage = 31_000 // bytes of a message; Chat refuses those beyond 32,000
	maxTitle   = 250    // characters
)

// sizes descend to one at which even the worst text fits, every character of which takes six bytes.
var sizes = []provider.Size{{20_000, 1000}, {10_000, 500}, {5000, 250}, {4000, 100}, {2000, 50}, {500, 20}}

func newMessage(n provider.Notification, thread string, size provider.Size) message {
	e := n.Event
	object := title(e.InvolvedObject.String())
	line, _, _ := strings.Cut(strings.TrimSpace(e.Message), "\n")
	c := card{Header: header{Title: object, Subtitle: title(e.ReportingController)}}
	text := provider.Visible(provider.EscapeEntities(provider.Truncate(e.Message, size.Message)), dash)
	if e.Severity == event.SeverityError {
		text = `<font color="#ff0000">` + text + `</font>`
	}
	c.Sections = []map[string][]widget{{"widgets": {{TextParagraph: map[string]string{"text": text}}}}}
	if facts := facts(n, size.Fact); len(facts) > 0 {
		c.Sections = append(c.Sections, map[string][]widget{"widgets": facts})
	}
	m := message{FallbackText: object + ": " + provider.Visible(title(line), dash), CardsV2: []cardWithID{{CardID: "event", Card: c}}}
	if thread != "" {
		m.Thread = map[string]string{"threadKey": thread}
	}
	return m
}

func facts(n provider.Notification, limit int) []widget {
	var widgets []widget
	for _, f := range provider.Facts(n, limit) {
		text := provider.Visible(f.Markup(provider.EscapeEntities, provider.AsIs)(f.Value), dash)
		label := f.Markup(title, provider.AsIs)(f.Name)
		widgets = append(widgets, widget{DecoratedText: &decoratedText{TopLabel: label, Text: text, WrapText: true}})
	}
	return widgets
}

// dash replaces an empty text, since Chat refuses a widget without text.
const dash = "–"

var plain = strings.NewReplacer("<", "‹", ">", "›")

// title returns s, cut, for a place of plain text.
func title(s string) string { return plain.Replace(provider.Truncate(s, maxTitle)) }
