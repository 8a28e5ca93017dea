package zoom

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
)

// check returns an error for a message that Zoom refuses.
func check(r *http.Request, body []byte) error {
	var m struct {
		Content struct {
			Head struct {
				Text    string
				SubHead *struct{ Text string } `json:"sub_head"`
			}
			Body []struct {
				Type, Text string
				Items      []struct{ Key, Value string }
			}
		}
	}
	if err := providertest.Decode(body, &m); err != nil {
		return err
	}
	switch {
	case r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json":
		return errors.New("method or content type")
	case !strings.HasPrefix(r.Header.Get("Authorization"), "token"):
		return errors.New("Authorization is not the token by itself")
	case r.URL.Query().Get("format") != "full":
		return errors.New("format")
	case m.Content.Head.Text == "" || len(m.Content.Body) == 0 || m.Content.Head.SubHead != nil && m.Content.Head.SubHead.Text == "":
		return errors.New("a part without text")
	}
	total := 0
	for _, i := range m.Content.Body {
		total += provider.UTF16Len(i.Text)
		switch {
		case i.Type == "message" && i.Text != "" && i.Items == nil && provider.UTF16Len(i.Text) <= 4096:
		case i.Type == "fields" && i.Text == "" && len(i.Items) > 0:
		default:
			return errors.New("an item of no kind, without text or too long")
		}
		for _, f := range i.Items {
			if total += provider.UTF16Len(f.Key + f.Value); f.Key == "" || f.Value == "" {
				return errors.New("a field without text")
			}
		}
	}
	if total > 8000 {
		return errors.New("too long")
	}
	return nil
}

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New:    provider.Builder(New),
		Config: provider.Config{Type: "zoom"}, Serve: providertest.Vendor(t, "", check), Path: "chat/webhooks/incomingwebhook/s3cret",
	})
}

func newSender(t *testing.T, path string, h http.HandlerFunc) (*provider.Client, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, h)
	return providertest.NewSender(t, New, provider.Config{Address: sink.URL + path, Token: "token", Network: providertest.Loopback()}), sink
}

func TestPayloads(t *testing.T) {
	s, sink := newSender(t, "/chat/webhooks/incomingwebhook/x", providertest.Vendor(t, "", check))
	providertest.Golden(t, "webhook", s, sink)
}

func TestTheWorstTextStillFits(t *testing.T) {
	s, _ := newSender(t, "/x", providertest.Vendor(t, "", check))
	providertest.SendWorst(t, s)
}

// Fails when the address's own format is replaced, or its parameters are lost.
func TestTheAddressMayNameItsFormat(t *testing.T) {
	for path, want := range map[string]string{
		"/x": "format=full", "/x?a=1": "a=1&format=full", "/x?format=full": "format=full", "/x?format=message&a=1": "a=1&format=message",
	} {
		s, sink := newSender(t, path, nil)
		if err := s.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil {
			t.Fatal(err)
		}
		if got := sink.Last(t).Query.Encode(); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestATokenIsNeeded(t *testing.T) {
	for _, token := range []string{"", "s3cret\n"} {
		_, err := New(provider.Config{Address: "https://zoom.test", Token: token})
		if err == nil || !strings.Contains(err.Error(), "token") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", token, err)
		}
	}
}

// Fails when a text is escaped, which a reader would see: the format is plain text.
func TestEverythingIsShownAsItIsWritten(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	const text = "<b>*a*</b> & [c](https://d.test)"
	n.Event.Message = text
	n.Event.Metadata = map[string]string{"summary": text}
	body := newMessage(n).Content.Body
	if body[0].Text != text || body[1].Items[0].Value != text {
		t.Errorf("got %+v", body)
	}
}
