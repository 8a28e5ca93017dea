package rocket

import (
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

var hexadecimal = regexp.MustCompile(`^#[0-9A-F]{6}$`)

// check returns an error for a message that Rocket.Chat refuses or does not show.
func check(r *http.Request, body []byte) error {
	var m struct {
		Channel, Username string
		Attachments       []struct {
			Color      string
			AuthorName string `json:"author_name"`
			Text       string
			TS         *time.Time
			Fields     []struct {
				Title, Value string
				Short        bool
			}
		}
	}
	if err := providertest.Decode(body, &m); err != nil {
		return err
	}
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || len(m.Attachments) != 1 {
		return fmt.Errorf("method, content type or attachments")
	}
	a := m.Attachments[0]
	total := provider.UTF16Len(a.AuthorName) + provider.UTF16Len(a.Text)
	for _, f := range a.Fields {
		total += provider.UTF16Len(f.Title) + provider.UTF16Len(f.Value)
	}
	if total > 5000 || !hexadecimal.MatchString(a.Color) || a.AuthorName == "" {
		return fmt.Errorf("%d characters, color %q", total, a.Color)
	}
	return nil
}

const answer = `{"success":true}`

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New:    provider.Builder(New),
		Config: provider.Config{Type: "rocket", Channel: "#ops", Username: "flux"}, Serve: providertest.Vendor(t, answer, check),
	})
}

func newSender(t *testing.T, h http.HandlerFunc) (*provider.Client, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, h)
	return providertest.NewSender(t, New, provider.Config{
		Address: sink.URL + "/hooks/a/b", Channel: "#ops", Username: "flux", Network: providertest.Loopback(),
	}), sink
}

func TestPayloads(t *testing.T) {
	s, sink := newSender(t, providertest.Vendor(t, answer, check))
	providertest.Golden(t, "webhook", s, sink)
}

func TestTheWorstTextStillFits(t *testing.T) {
	s, _ := newSender(t, providertest.Vendor(t, answer, check))
	providertest.SendWorst(t, s)
}

// Fails when the markup of the Alert's author is broken, or when any other markup is not.
func TestTheMarkupOfTheAlertsAuthorIsKept(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	const markup, broken = "@all [a](https://b.test) <https://c.test|d>", "@\u200Ball [a]\u200B(https://b.test) <\u200Bhttps://c.test|d>"
	n.Event.Message = markup
	n.Event.Metadata = map[string]string{"summary": markup, "annotation": markup}
	n.Authored = []string{"summary"}
	a := newAttachment(n)
	if a.Text != broken || a.Fields[0].Value != markup || a.Fields[1].Value != broken {
		t.Errorf("got %+v", a)
	}
}

func TestRocketsErrorsAreShownAndNothingElse(t *testing.T) {
	for body, want := range map[string]string{
		`{"success":false,"error":"invalid-channel"}`: "HTTP 400: invalid-channel",
		`{"success":false,"error":"hush"}`:            "HTTP 400",
		`invalid-channel`:                             "HTTP 400",
	} {
		s, _ := newSender(t, providertest.Says(http.StatusBadRequest, body))
		if got := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"])); got.Reason != want {
			t.Errorf("%s: got %q, want %q", body, got.Reason, want)
		}
	}
}
