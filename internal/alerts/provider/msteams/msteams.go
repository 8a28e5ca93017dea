package msteams

import (
	"bytes"
	"net/url"
	"regexp"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// maxCard is the length of the longest card in bytes, as Teams counts them: it keeps the card as a string inside another JSON value, and
// refuses more than 28 KiB of that. A workflow has answered success by then, so that the refusal is not seen.
const maxCard = 27 << 10

// sizes descend to one at which even the worst text fits, every character of which takes seven bytes.
var sizes = []provider.Size{
	{24000, 1000}, {16000, 500}, {8000, 250}, {4000, 100}, {2000, 50}, {500, 20},
}

// keptLength returns the length of a card in JSON as a string in JSON.
func keptLength(card []byte) int {
	return len(card) + bytes.Count(card, []byte(`"`)) + bytes.Count(card, []byte(`\`))
}

// New returns a Sender to one connector or workflow, which posts a notification as a card.
func New(cfg provider.Config) (*provider.Client, error) {
	o := provider.ClientOptions{Word: word, Message: workflowCard}
	if u, err := url.Parse(strings.TrimSpace(cfg.Address)); err == nil && provider.Within(u.Hostname(), "webhook.office.com") {
		o.Message, o.MaxReply, o.Outcome = connectorCard, maxReply, outcome
	}
	return provider.NewClient(cfg, o)
}

// maxReply is the length, in bytes, of a connector's longest answer: a line of text.
const maxReply = 4 << 10

// undelivered is the beginning of a connector's answer if Teams did not take the message behind it. The answer's status is 200 in any case
// (Microsoft, "Rate limiting for connectors").
const undelivered = "Webhook message delivery failed"

// behind matches the status that Teams answered a connector.
var behind = regexp.MustCompile(`Microsoft Teams endpoint returned HTTP error ([1-9][0-9]{2})\b`)

// outcome classifies a connector's answer of HTTP 200.
func outcome(answer []byte) error {
	found := behind.FindSubmatch(answer)
	if found == nil {
		if !bytes.Contains(answer, []byte(undelivered)) {
			return nil
		}
		return event.NewError(event.Retry, provider.LabelRejected, "connector: the message was not delivered", nil)
	}
	class, label := event.Retry, provider.LabelRejected
	switch status := string(found[1]); {
	case status == "429":
		label = provider.LabelLimited
	case status[0] == '4' && status != "408":
		class = event.Permanent
	}
	return event.NewError(class, label, "connector: Teams answered HTTP "+string(found[1]), nil)
}

// word returns the part of a refusal's answer that is shown: a code by which workflows refuse a message, or a short text by which connectors
// do.
var word = provider.WordOrAt("error.code",
	"DirectApiAuthorizationRequired", "DirectApiInvalidAuthorizationScheme", "InvalidRequestContent", "TriggerInputSchemaMismatch",
	"WorkflowNotFound", "WorkflowTriggerIsNotEnabled", "WorkflowTriggerNotFound",
	"Bad payload received by generic incoming webhook.", "Connector configuration not found", "Invalid webhook URL",
	"Summary or Text is required.",
)

// connectorCard and workflowCard return the request of a card with as much of the event as fits.
func connectorCard(_ *provider.Client, n provider.Notification) (provider.Request, error) {
	body, err := provider.ShrinkJSONBy(sizes, maxCard, keptLength, func(z provider.Size) messageCard {
		return newMessageCard(n, z.Message, z.Fact)
	})
	return provider.Request{Body: body}, err
}

func workflowCard(_ *provider.Client, n provider.Notification) (provider.Request, error) {
	body, err := provider.ShrinkJSONBy(sizes, maxCard, keptLength, func(z provider.Size) workflowMessage {
		return newWorkflowMessage(n, z.Message, z.Fact)
	})
	return provider.Request{Body: body}, err
}

func newMessageCard(n provider.Notification, maxMessage, maxFact int) messageCard {
	e := n.Event
	object := html(e.InvolvedObject.String(), maxFact)
	facts := []map[string]string{}
	for _, f := range provider.Facts(n, maxFact) {
		name, value := f.Show(func(s string) string { return html(s, maxFact) })
		facts = append(facts, map[string]string{"name": name, "value": value})
	}
	return messageCard{
		Type: "MessageCard", Context: "http://schema.org/extensions", ThemeColor: provider.BySeverity(e, "0076D7", "FF0000"), Summary: object,
		Sections: []section{{ActivityTitle: html(e.Message, maxMessage), ActivitySubtitle: object, Facts: facts}},
	}
}

func newWorkflowMessage(n provider.Notification, maxMessage, maxFact int) workflowMessage {
	e := n.Event
	message := textBlock{Type: "TextBlock", Text: text(e.Message, maxMessage), Wrap: true, Color: provider.BySeverity(e, "", "attention")}
	items := []any{
		textBlock{Type: "TextBlock", Text: text(e.InvolvedObject.String(), maxFact), Size: "large", Weight: "bolder", Wrap: true},
		message,
	}
	if facts := provider.Facts(n, maxFact); len(facts) > 0 {
		set := factSet{Type: "FactSet"}
		for _, f := range facts {
			title, value := f.Show(func(s string) string { return text(s, maxFact) })
			set.Facts = append(set.Facts, map[string]string{"title": title, "value": value})
		}
		items = append(items, set)
	}
	return workflowMessage{
		Type: "message",
		Attachments: []attachment{{
			ContentType: "application/vnd.microsoft.card.adaptive",
			Content: adaptiveCard{
				Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard", Version: "1.4",
				MSTeams: map[string]string{"width": "Full"},
				Body:    []container{{Type: "Container", Items: items}},
			},
		}},
	}
}

// text returns s cut to maxRunes characters, for an Adaptive Card.
func text(s string, maxRunes int) string { return apart(plain(s, maxRunes)) }

// plain returns s cut to maxRunes characters, without links behind labels.
func plain(s string, maxRunes int) string { return provider.BreakLinks(provider.Truncate(s, maxRunes)) }

// apart keeps lines apart that an Adaptive Card would join: its Markdown takes a single line break for a space, except in a list.
func apart(s string) string {
	if !strings.Contains(s, "\n") {
		return s
	}
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimRight(line, " \t\r\n"); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n\n")
}

// html returns s cut to maxRunes characters, for a MessageCard.
func html(s string, maxRunes int) string { return provider.EscapeEntities(plain(s, maxRunes)) }
