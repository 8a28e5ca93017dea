package zulip

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

var account = provider.Config{Type: "zulip", Channel: "ops/flux/prod", Username: "flux-bot@zulip.test", Password: "key-s3cret"}

// check returns an error for a message that Zulip refuses.
func check(r *http.Request, body []byte) error {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return err
	}
	for name, values := range form {
		if len(values) != 1 || values[0] == "" || strings.Contains(values[0], "\x00") || !utf8.ValidString(values[0]) {
			return fmt.Errorf("%s is not one value, is empty, or has null bytes", name)
		}
	}
	user, password, _ := r.BasicAuth()
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/api/v1/messages" ||
		r.Header.Get("Content-Type") != "application/x-www-form-urlencoded":
		return errors.New("method, path or content type")
	case user != account.Username || password != account.Password:
		return errors.New("INVALID_API_KEY")
	case len(form) != 4 || form.Get("type") != "stream" || form.Get("to") != "ops":
		return errors.New("parameters")
	case utf8.RuneCountInString(form.Get("topic")) > 60 || strings.ContainsAny(form.Get("topic"), "\r\n\x01"):
		return errors.New("topic")
	case utf8.RuneCountInString(form.Get("content")) > 10000:
		return errors.New("content")
	}
	return nil
}

const answer = `{"result":"success","msg":"","id":42}`

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{New: provider.Builder(New), Config: account, Serve: providertest.Vendor(t, answer, check)})
}

func newSender(t *testing.T, h http.HandlerFunc) (*provider.Client, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, h)
	cfg := account
	cfg.Address, cfg.Network = sink.URL+"/any/path", providertest.Loopback()
	return providertest.NewSender(t, New, cfg), sink
}

func TestPayloads(t *testing.T) {
	s, sink := newSender(t, providertest.Vendor(t, answer, check))
	providertest.Golden(t, "message", s, sink)
}

func TestTheWorstTextStillFits(t *testing.T) {
	s, _ := newSender(t, providertest.Vendor(t, answer, check))
	providertest.SendWorst(t, s)
}

// Fails when the channel is divided elsewhere, or a topic that Zulip refuses is sent.
func TestChannelAndTopicAreDividedAtTheFirstSlash(t *testing.T) {
	for in, want := range map[string][2]string{
		"a/b": {"a", "b"}, "a/b/c": {"a", "b/c"}, "a/b\n c": {"a", "b c"},
		"a/" + strings.Repeat("x", 61): {"a", strings.Repeat("x", 47) + "… (truncated)"},
		"a":                            {}, "a/": {}, "/b": {}, "": {},
	} {
		channel, topic, err := divide(in)
		if got := [2]string{channel, topic}; got != want || (err != nil) != (want == [2]string{}) {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

func TestBothCredentialsAreNeeded(t *testing.T) {
	for _, drop := range []func(*provider.Config){func(c *provider.Config) { c.Username = "" }, func(c *provider.Config) { c.Password = "" }} {
		cfg := account
		cfg.Address = "https://zulip.test"
		drop(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "username and password") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("got %v", err)
		}
	}
}

// Fails when the markup of the Alert's author is broken, or when any other markup is not.
func TestTheMarkupOfTheAlertsAuthorIsKept(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	const markup, broken = "@**all** [a](https://b.test) [c]: d", "@\u200B**all** [a]\u200B(https://b.test) [c]\u200B: d"
	n.Event.Message = markup
	n.Event.Metadata = map[string]string{"summary": markup, "x": markup}
	n.Authored = []string{"summary"}
	want := "✅ **kustomization/apps.team-a**\n\n" + broken + "\n\n* **summary**: " + markup + "\n* **x**: " + broken
	if got := content(n); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestZulipSaysHowLongToWaitAndWhatIsWrong(t *testing.T) {
	for body, want := range map[string]struct {
		status int
		wait   time.Duration
		reason string
	}{
		`{"code":"RATE_LIMIT_HIT","msg":"hush","result":"error","retry-after":28.5}`: {429, 28500 * time.Millisecond, "HTTP 429: RATE_LIMIT_HIT"},
		`{"retry-after":1e99}`: {429, time.Hour, "HTTP 429"},
		`hush`:                 {429, 0, "HTTP 429"},
		`{"result":"error","code":"STREAM_DOES_NOT_EXIST","msg":"Channel 'hush' does not exist"}`: {400, 0, "HTTP 400: STREAM_DOES_NOT_EXIST"},
		`{"code":"HUSH","retry-after":5}`: {400, 0, "HTTP 400"},
	} {
		s, _ := newSender(t, providertest.Says(want.status, body))
		got := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"]))
		if got.Reason != want.reason || got.RetryAfter != want.wait || (got.Class == event.Retry) != (want.status == 429) {
			t.Errorf("%s: %q, class %d after %v, want %+v", body, got.Reason, got.Class, got.RetryAfter, want)
		}
	}
}

func TestOnlyZulipCloudIsLimited(t *testing.T) {
	for address, want := range map[string]provider.Limit{
		"https://team.zulipchat.com": {Rate: 200.0 / 60, Burst: 10}, "https://notzulipchat.com": {}, "https://zulip.example.test": {},
	} {
		cfg := account
		cfg.Address = address
		if s, err := New(cfg); err != nil || s.Limit() != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}
