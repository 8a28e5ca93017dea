package zoom

import (
	"strings"

	"notifier/internal/alerts/provider"
)

// New returns a Sender to one connection, which posts a notification as one message. A token is required.
func New(cfg provider.Config) (*provider.Client, error) {
	return provider.NewClient(cfg, provider.ClientOptions{Login: provider.TokenIn("Authorization", ""), Message: request})
}

// request returns the request of a message, with a format in its address.
func request(c *provider.Client, n provider.Notification) (provider.Request, error) {
	u := c.URL()
	if u.Query().Get("format") == "" {
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&format=full", "&")
	}
	return provider.Request{URL: u, JSON: newMessage(n)}, nil
}

// The parts of a message that are used here, in the names of Zoom's chat apps.

type message struct {
	Content content `json:"content"`
}

type content struct {
	Head head   `json:"head"`
	Body []item `json:"body"`
}

type head struct {
	Text    string            `json:"text"`
	SubHead map[string]string `json:"sub_head,omitempty"`
}

type item struct {
	Type  string  `json:"type"`
	Text  string  `json:"text,omitempty"`
	Items []field `json:"items,omitempty"`
}

type field struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

const (
	maxMessage = 8000 // characters of all texts
	maxObject  = 250
)

// sizes are in characters.
var sizes = []provider.Size{{4096, 1000}, {4096, 250}, {4096, 50}}

// newMessage returns the notification with as much of the event as fits.
func newMessage(n provider.Notification) (m message) {
	e := n.Event
	m.Content.Head.Text = fit(e.InvolvedObject.String(), maxObject)
	if e.Severity != "" {
		m.Content.Head.SubHead = map[string]string{"text": fit(e.Severity, maxObject)}
	}
	return provider.Shrink(sizes, maxMessage, message.size, func(s provider.Size) message {
		m.Content.Body = []item{{Type: "message", Text: provider.Visible(fit(strings.TrimSpace(e.Message), s.Message), dash)}}
		if fields := fields(n, s.Fact); len(fields) > 0 {
			m.Content.Body = append(m.Content.Body, item{Type: "fields", Items: fields})
		}
		return m
	})
}

func (m message) size() int {
	size := provider.UTF16Len(m.Content.Head.Text) + provider.UTF16Len(m.Content.Head.SubHead["text"])
	for _, i := range m.Content.Body {
		size += provider.UTF16Len(i.Text)
		for _, f := range i.Items {
			size += provider.UTF16Len(f.Key) + provider.UTF16Len(f.Value)
		}
	}
	return size
}

func fields(n provider.Notification, limit int) (shown []field) {
	for _, f := range provider.Facts(n, limit) {
		shown = append(shown, field{
			Key: provider.Visible(fit(f.Name, limit), dash), Value: provider.Visible(fit(f.Value, limit), dash),
		})
	}
	return shown
}

// dash replaces an empty text, since every part of a message needs text.
const dash = "–"

func fit(s string, limit int) string {
	return provider.FitUTF16(s, limit, provider.AsIs)
}
