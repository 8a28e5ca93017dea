package matrix

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const room = "!abc/../d:example.org"

// check returns an error for a message that a homeserver refuses.
func check(r *http.Request, body []byte) error {
	var m struct {
		MsgType       string
		Body, Format  string
		FormattedBody string    `json:"formatted_body"`
		Mentions      *struct{} `json:"m.mentions"`
	}
	if err := providertest.Decode(body, &m); err != nil {
		return err
	}
	switch {
	case r.Method != http.MethodPut || r.Header.Get("Content-Type") != "application/json":
		return errors.New("method or content type")
	case !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer t"):
		return errors.New("M_MISSING_TOKEN")
	case !strings.HasSuffix(r.URL.EscapedPath(), "/_matrix/client/v3/rooms/%21abc%2F..%2Fd:example.org/send/m.room.message/"+
		providertest.DeliveryID):
		return fmt.Errorf("M_UNRECOGNIZED: %s", r.URL.EscapedPath())
	case m.MsgType != "m.text" || m.Body == "" || m.Format != "org.matrix.custom.html" || m.FormattedBody == "" || m.Mentions == nil:
		return errors.New("M_BAD_JSON")
	case strings.Contains(m.Body+m.FormattedBody, "\x00"):
		return errors.New("M_BAD_JSON: no database stores a NUL")
	case len(body) > 60<<10:
		return errors.New("M_TOO_LARGE")
	}
	return nil
}

const answer = `{"event_id":"$e"}`

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: provider.Builder(New), Config: provider.Config{Type: "matrix", Channel: room}, Serve: providertest.Vendor(t, answer, check),
	})
}

func newSender(t *testing.T, h http.HandlerFunc) (*provider.Client, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, h)
	return providertest.NewSender(t, New, provider.Config{
		Address: sink.URL + "/base/", Token: "token", Channel: room, Network: providertest.Loopback(),
	}), sink
}

func TestPayloads(t *testing.T) {
	s, sink := newSender(t, providertest.Vendor(t, answer, check))
	providertest.Golden(t, "room", s, sink)
}

func TestTheWorstTextStillFits(t *testing.T) {
	s, _ := newSender(t, providertest.Vendor(t, answer, check))
	providertest.SendWorst(t, s)
}

// Fails when only the first message reveals a token or a room that no homeserver accepts.
func TestTokenAndRoomAreNeeded(t *testing.T) {
	for _, c := range []struct{ token, channel, says string }{
		{"", "!a:b", "token"},
		{"s3cret\n", "!a:b", "token"},
		{"s3cret", "", "spec.channel"},
		{"s3cret", "#alias:b", "spec.channel"},
		{"s3cret", "!a:b", ""},
	} {
		_, err := New(provider.Config{Address: "https://matrix.test", Token: c.token, Channel: c.channel})
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Fails when a text of a notification becomes HTML.
func TestEverythingIsShownAsItIsWritten(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	n.Event.Message = "<b>a</b>\n& b"
	n.Event.Metadata = map[string]string{"summary": "<i>c</i>\nd"}
	n.Authored = []string{"summary"}
	m := newMessage(n, 1000, 1000)
	const object = "💫 kustomization/apps.team-a"
	if want := object + "\n<b>a</b>\n& b\n- summary: <i>c</i>\nd"; m.Body != want {
		t.Errorf("body %q, want %q", m.Body, want)
	}
	want := "<strong>" + object + "</strong><br>&lt;b&gt;a&lt;/b&gt;<br>&amp; b" +
		"<ul><li><strong>summary</strong>: &lt;i&gt;c&lt;/i&gt;<br>d</li></ul>"
	if m.FormattedBody != want {
		t.Errorf("HTML %q, want %q", m.FormattedBody, want)
	}
}

func TestAHomeserverSaysHowLongToWaitAndWhatIsWrong(t *testing.T) {
	for body, want := range map[string]struct {
		status int
		wait   time.Duration
		reason string
	}{
		`{"errcode":"M_LIMIT_EXCEEDED","error":"hush","retry_after_ms":2500}`: {429, 2500 * time.Millisecond, "HTTP 429: M_LIMIT_EXCEEDED"},
		`{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":1e99}`:                {429, time.Hour, "HTTP 429: M_LIMIT_EXCEEDED"},
		`{"errcode":"M_LIMIT_EXCEEDED"}`:                                      {400, 0, "HTTP 400 (rate limit): M_LIMIT_EXCEEDED"},
		`{"errcode":"M_FORBIDDEN","error":"User @hush not in room"}`:          {403, 0, "HTTP 403: M_FORBIDDEN"},
		`{"errcode":"HUSH"}`: {404, 0, "HTTP 404"},
		`hush`:               {404, 0, "HTTP 404"},
	} {
		s, _ := newSender(t, providertest.Says(want.status, body))
		got := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"]))
		if got.Reason != want.reason || got.RetryAfter != want.wait || (got.Class == event.Retry) != strings.Contains(body, "LIMIT") {
			t.Errorf("%s: %q, class %d after %v, want %+v", body, got.Reason, got.Class, got.RetryAfter, want)
		}
	}
}
