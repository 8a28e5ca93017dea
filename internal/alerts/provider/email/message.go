package email

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html"
	"strings"
	"time"
	"unicode"

	"github.com/wneessen/go-mail"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

const (
	maxText    = 50000 // characters of the message
	maxFact    = 2000  // characters of a fact's name or value
	maxSubject = 250   // characters
)

// message returns the mail as it is sent.
func (s *Sender) message(n provider.Notification) ([]byte, error) {
	m := mail.NewMsg(mail.WithNoDefaultUserAgent(), mail.WithBoundary("notifier-"+digest(n.DeliveryID)))
	m.FromMailAddress(s.from)
	m.ToMailAddress(s.to...)
	m.Subject("Flux: " + subject(n.Event))
	m.SetDateWithValue(s.date(n.Event))
	m.SetMessageIDWithValue(digest(n.DeliveryID) + "@" + s.domain())
	thread := "<" + thread(n.Event) + "@" + s.domain() + ">"
	m.SetGenHeader(mail.HeaderInReplyTo, thread)
	m.SetGenHeader(mail.HeaderReferences, thread)
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	if n.Event.Severity == event.SeverityError {
		m.SetImportance(mail.ImportanceHigh)
	}
	c := contentOf(n)
	m.SetBodyString(mail.TypeTextPlain, c.text())
	m.AddAlternativeString(mail.TypeTextHTML, c.html())
	var b bytes.Buffer
	if _, err := m.WriteTo(&b); err != nil {
		return nil, event.NewError(event.Permanent, provider.LabelPayload, "the mail could not be built", err)
	}
	return b.Bytes(), nil
}

// date returns the time of the event, which is the same at every attempt, or the current time if the event has none.
func (s *Sender) date(e event.Event) time.Time {
	if e.Timestamp.IsZero() {
		return s.now()
	}
	return e.Timestamp
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// thread returns the identifier of all mails about one object.
func thread(e event.Event) string {
	o := e.InvolvedObject
	return "thread." + digest(o.Group(), o.Kind, o.Namespace, o.Name)
}

// subject returns the subject of the mails about an object. It is the same for all of them, since some readers group threads by it.
func subject(e event.Event) string {
	return provider.Truncate(strings.Join(strings.Fields(printable(e.InvolvedObject.String())), " "), maxSubject)
}

// printable drops control characters other than line breaks and tabs.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// content is the text of a mail.
type content struct {
	headline, message string
	facts             []provider.Fact
}

func contentOf(n provider.Notification) content {
	e := n.Event
	c := content{
		headline: cmp.Or(printable(provider.Truncate(e.Severity, maxFact)), event.SeverityInfo) + ": " + subject(e),
		message:  strings.TrimSpace(printable(provider.Truncate(e.Message, maxText))),
	}
	add := func(name, value string) {
		if value != "" {
			c.facts = append(c.facts, provider.Fact{Name: name, Value: provider.Truncate(value, maxFact)})
		}
	}
	add("reason", e.Reason)
	add("controller", e.ReportingController)
	if !e.Timestamp.IsZero() {
		add("time", e.Timestamp.UTC().Format(time.RFC3339))
	}
	c.facts = append(c.facts, provider.Facts(n, maxFact)...)
	return c
}

// text returns the plain alternative.
func (c content) text() string {
	var b strings.Builder
	b.WriteString(c.headline + "\n\n")
	if c.message != "" {
		b.WriteString(c.message + "\n\n")
	}
	for _, f := range c.facts {
		// A value of several lines stays one entry.
		fmt.Fprintf(&b, "%s: %s\n", printable(f.Name), strings.ReplaceAll(printable(f.Value), "\n", "\n    "))
	}
	return b.String()
}

// html returns the alternative with markup. Only the facts of the Alert's author may have markup of their own.
func (c content) html() string {
	escape := func(s string) string { return strings.ReplaceAll(html.EscapeString(printable(s)), "\n", "<br>\n") }
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html><body>\n<p><strong>%s</strong></p>\n", escape(c.headline))
	if c.message != "" {
		fmt.Fprintf(&b, "<p>%s</p>\n", escape(c.message))
	}
	if len(c.facts) > 0 {
		b.WriteString("<table>\n")
		for _, f := range c.facts {
			name, value := f.Show(escape)
			fmt.Fprintf(&b, "<tr><td>%s</td><td>%s</td></tr>\n", name, value)
		}
		b.WriteString("</table>\n")
	}
	b.WriteString("</body></html>\n")
	return b.String()
}
