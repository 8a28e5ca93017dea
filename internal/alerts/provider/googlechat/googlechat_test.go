package googlechat

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

// check returns an error for a message that Chat refuses.
func check(r *http.Request, body []byte) error {
	var m struct {
		FallbackText string
		Thread       *struct{ ThreadKey string }
		CardsV2      []struct {
			CardID string
			Card   struct {
				Header   struct{ Title, Subtitle string }
				Sections []struct {
					Widgets []struct {
						TextParagraph *struct{ Text string }
						DecoratedText *struct {
							TopLabel, Text string
							WrapText       bool
						}
					}
				}
			}
		}
	}
	if err := providertest.Decode(body, &m); err != nil {
		return err
	}
	q := r.URL.Query()
	switch {
	case r.Method != http.MethodPost || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
		return errors.New("method or content type")
	case len(body) > 32000:
		return fmt.Errorf("%d bytes", len(body))
	case len(q["requestId"]) != 1 || len(q["requestId"][0]) < 32:
		return errors.New("requestId")
	case m.Thread != nil && (m.Thread.ThreadKey == "" || q.Get("messageReplyOption") == ""):
		return errors.New("a thread that is ignored")
	case len(m.CardsV2) == 1 && len(m.CardsV2[0].Card.Sections) == 0:
		return errors.New("a card without sections")
	case len(m.CardsV2) != 1 || m.CardsV2[0].CardID == "" || m.CardsV2[0].Card.Header.Title == "":
		return errors.New("no card, or one without ID or title")
	}
	for _, section := range m.CardsV2[0].Card.Sections {
		if len(section.Widgets) == 0 {
			return errors.New("a section without widgets")
		}
		for _, w := range section.Widgets {
			if (w.TextParagraph == nil) == (w.DecoratedText == nil) {
				return errors.New("a widget of no kind or two")
			}
			if w.TextParagraph != nil && w.TextParagraph.Text == "" || w.DecoratedText != nil && w.DecoratedText.Text == "" {
				return errors.New("a widget without text")
			}
		}
	}
	return nil
}

const answer = `{"name":"spaces/AAA/messages/1"}`

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: provider.Builder(New), Config: provider.Config{Type: "googlechat"}, Serve: providertest.Vendor(t, answer, check),
		Path: "v1/spaces/AAA/messages?key=k&token=s3cret",
	})
}

func newSender(t *testing.T, cfg provider.Config, path string, h http.HandlerFunc) (*provider.Client, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, h)
	cfg.Address, cfg.Network = sink.URL+path, providertest.Loopback()
	return providertest.NewSender(t, New, cfg), sink
}

func TestPayloads(t *testing.T) {
	for name, channel := range map[string]string{"card": "", "thread": "flux"} {
		s, sink := newSender(t, provider.Config{Channel: channel}, "/v1/spaces/AAA/messages?key=k&token=t", providertest.Vendor(t, answer, check))
		t.Run(name, func(t *testing.T) { providertest.Golden(t, name, s, sink) })
	}
}

func TestTheWorstTextStillFits(t *testing.T) {
	s, _ := newSender(t, provider.Config{}, "/x", providertest.Vendor(t, answer, check))
	providertest.SendWorst(t, s)
}

// Fails when the parameters of the webhook's address are lost, encoded anew, or replaced.
func TestTheAddressKeepsItsParameters(t *testing.T) {
	s, sink := newSender(t, provider.Config{Channel: "flux"}, "/v1/x?token=a%3D%3D&messageReplyOption=MINE", nil)
	if err := s.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil {
		t.Fatal(err)
	}
	q := sink.Last(t).Query
	if got := q.Encode(); got != "messageReplyOption=MINE&requestId="+providertest.DeliveryID+"&token=a%3D%3D" {
		t.Errorf("got %s", got)
	}
}

func TestGooglesStatusesAreShownAndNothingElse(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"code":404,"message":"hush","status":"NOT_FOUND"}}`: "HTTP 404: NOT_FOUND",
		`{"error":{"status":"hush"}}`:                                  "HTTP 404",
		`NOT_FOUND`:                                                    "HTTP 404",
	} {
		s, _ := newSender(t, provider.Config{}, "/x", providertest.Says(http.StatusNotFound, body))
		if got := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"])); got.Reason != want {
			t.Errorf("%s: got %q, want %q", body, got.Reason, want)
		}
	}
}

// Fails when the markup of the Alert's author is escaped, or when any other markup is not.
func TestTheMarkupOfTheAlertsAuthorIsKept(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	const markup, escaped = "<b>a</b> & c", "&lt;b&gt;a&lt;/b&gt; &amp; c"
	n.Event.Message = markup
	n.Event.Metadata = map[string]string{"summary": markup, "annotation": markup}
	n.Authored = []string{"summary"}
	m := newMessage(n, "", provider.Size{Message: 1000, Fact: 1000})
	sections := m.CardsV2[0].Card.Sections
	if sections[0]["widgets"][0].TextParagraph["text"] != escaped || sections[1]["widgets"][0].DecoratedText.Text != markup ||
		sections[1]["widgets"][1].DecoratedText.Text != escaped || strings.Contains(m.FallbackText, "<") {
		t.Errorf("got %+v", m)
	}
}

func TestOnlyGooglesHostIsLimited(t *testing.T) {
	for address, want := range map[string]provider.Limit{
		"https://chat.googleapis.com/v1/spaces/A/messages?key=k": {Rate: 1, Burst: 1}, "https://CHAT.googleapis.com./x": {Rate: 1, Burst: 1},
		"https://chat.googleapis.com.example.test/x": {},
	} {
		s, err := New(provider.Config{Address: address})
		if err != nil || s.Limit() != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}
