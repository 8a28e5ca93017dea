package webex

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

// check returns an error for a message that Webex refuses.
func check(r *http.Request, body []byte) error {
	var m struct{ RoomID, Markdown string }
	if err := providertest.Decode(body, &m); err != nil {
		return err
	}
	switch {
	case r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json":
		return errors.New("method or content type")
	case !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer t"):
		return errors.New("no bearer token")
	case m.RoomID != "Y2lzY29room":
		return errors.New("roomId")
	case m.Markdown == "" || len(m.Markdown) > 7439:
		return errors.New("markdown is empty or too long")
	}
	return nil
}

const answer = `{"id":"Y2lzY29message"}`

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: provider.Builder(New), Config: provider.Config{Type: "webex", Channel: "Y2lzY29room"}, Serve: providertest.Vendor(t, answer, check),
	})
}

func newSender(t *testing.T, h http.HandlerFunc) (*provider.Client, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, h)
	return providertest.NewSender(t, New, provider.Config{
		Address: sink.URL + "/v1/messages", Token: "token", Channel: "Y2lzY29room", Network: providertest.Loopback(),
	}), sink
}

func TestPayloads(t *testing.T) {
	s, sink := newSender(t, providertest.Vendor(t, answer, check))
	providertest.Golden(t, "message", s, sink)
}

func TestTheWorstTextStillFits(t *testing.T) {
	s, _ := newSender(t, providertest.Vendor(t, answer, check))
	for name, n := range providertest.Worst(t) {
		n.Event.Message += "\n\n"
		if err := s.Send(t.Context(), n); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Fails when New accepts a Config without a setting that the API requires, or when an incoming webhook needs the same settings.
func TestTheAPINeedsTokenAndRoom(t *testing.T) {
	for _, c := range []struct {
		cfg  provider.Config
		says string
	}{
		{provider.Config{Address: "https://webexapis.com/v1/messages", Channel: "c"}, "token"},
		{provider.Config{Address: "https://WebexAPIs.com/v1/messages", Token: "s3cret"}, "spec.channel"},
		{provider.Config{Address: "https://webexapis.com/v1/messages", Token: "s3cret\n", Channel: "c"}, "token"},
		{provider.Config{Address: "https://webexapis.com/v1/messages", Token: "s3cret", Channel: "c"}, ""},
		{provider.Config{Address: "https://webexapis.com/v1/webhooks/incoming/x"}, ""},
	} {
		_, err := New(c.cfg)
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("want an error that says %q, got %v", c.says, err)
		}
	}
}

// Fails when the markup of the Alert's author is escaped, when any other markup is not, or when a value leaves its quote.
func TestTheMarkupOfTheAlertsAuthorIsKept(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	const markup, escaped = "<@all> [a](https://b.test/x_y?c&d) *c*", `&lt;@all&gt; \[a\](https://b.test/x_y?c&amp;d) \*c\*`
	n.Event.Message = markup
	n.Event.Metadata = map[string]string{"summary": markup, "x": markup + "\n# b"}
	n.Authored = []string{"summary"}
	want := "✅ **kustomization/apps.team-a**  \n" + escaped + "\n\n>**summary**: " + markup + "  \n>**x**: " + escaped + "  \n>\\# b"
	if got := markdown(n); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestWebexsErrorsAreShownAndNothingElse(t *testing.T) {
	for body, want := range map[string]string{
		`{"message":"The requested resource could not be found.","trackingId":"hush"}`: "HTTP 404: The requested resource could not be found.",
		`{"message":"hush"}`: "HTTP 404",
		`hush`:               "HTTP 404",
	} {
		s, _ := newSender(t, providertest.Says(http.StatusNotFound, body))
		if got := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"])); got.Reason != want {
			t.Errorf("%s: got %q, want %q", body, got.Reason, want)
		}
	}
}

// Fails when a message is given up although Webex says that the space is unavailable for a time.
func TestALockedSpaceIsTriedAgain(t *testing.T) {
	s, _ := newSender(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusLocked)
	})
	e := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"]))
	if e.Class != event.Retry || e.RetryAfter != 3*time.Second {
		t.Errorf("got class %d after %v, want a retry after 3s", e.Class, e.RetryAfter)
	}
}
