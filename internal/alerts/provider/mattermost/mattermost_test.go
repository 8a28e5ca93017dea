package mattermost

import (
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const channel = "4yrbyxjpwpgqtb7tkz4ixzqauc"

type strictAttachment struct {
	Fallback, Color, Text string
	AuthorName            string `json:"author_name"`
	Fields                []struct {
		Title, Value string
		Short        bool
	}
}

// checkAttachments returns an error for attachments that Mattermost refuses or cannot store.
func checkAttachments(r *http.Request, body []byte, attachments []strictAttachment) error {
	switch {
	case r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json":
		return errors.New("method or content type")
	case strings.Contains(string(body), `\u0000`):
		return errors.New("the database stores no NUL")
	case utf8.RuneCount(body) > 760_000 || len(attachments) != 1:
		return errors.New("too long, or not one attachment")
	}
	a := attachments[0]
	if a.Fallback == "" || a.AuthorName == "" || a.Color != "good" && a.Color != "danger" || utf8.RuneCountInString(a.Text) > 7500 {
		return errors.New("attachment")
	}
	return nil
}

func checkHook(r *http.Request, body []byte) error {
	var m struct {
		Channel, Username string
		Attachments       []strictAttachment
	}
	if err := providertest.Decode(body, &m); err != nil {
		return err
	}
	if !strings.HasPrefix(r.URL.Path, "/hooks/") {
		return errors.New("path")
	}
	return checkAttachments(r, body, m.Attachments)
}

func checkPost(r *http.Request, body []byte) error {
	var m struct {
		ChannelID     string `json:"channel_id"`
		PendingPostID string `json:"pending_post_id"`
		Message       *string
		Props         struct{ Attachments []strictAttachment }
	}
	if err := providertest.Decode(body, &m); err != nil {
		return err
	}
	switch {
	case !strings.HasSuffix(r.URL.Path, "/api/v4/posts"):
		return errors.New("path")
	case !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer t"):
		return errors.New("api.context.session_expired.app_error")
	case m.ChannelID != channel || m.Message == nil || m.PendingPostID != providertest.DeliveryID:
		return errors.New("api.context.invalid_body_param.app_error")
	}
	return checkAttachments(r, body, m.Props.Attachments)
}

func TestContractOfTheWebhook(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New:    provider.Builder(New),
		Config: provider.Config{Type: "mattermost"}, Serve: providertest.Vendor(t, "ok", checkHook), Path: "hooks/path-s3cret",
	})
}

func TestContractOfTheAPI(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New:    provider.Builder(New),
		Config: provider.Config{Type: "mattermost", Channel: channel}, Serve: providertest.Vendor(t, `{"id":"p"}`, checkPost),
	})
}

func newSender(t *testing.T, cfg provider.Config, path string, h http.HandlerFunc) (*Sender, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, h)
	cfg.Address, cfg.Network = sink.URL+path, providertest.Loopback()
	return providertest.NewSender(t, New, cfg), sink
}

// both returns a Sender to a strict webhook and one to a strict API.
func both(t *testing.T) map[string]func() (*Sender, *providertest.Sink) {
	return map[string]func() (*Sender, *providertest.Sink){
		"webhook": func() (*Sender, *providertest.Sink) {
			return newSender(t, provider.Config{Channel: "town-square", Username: "flux"}, "/hooks/x", providertest.Vendor(t, "ok", checkHook))
		},
		"api": func() (*Sender, *providertest.Sink) {
			return newSender(t, provider.Config{Channel: channel, Token: "token"}, "/base/", providertest.Vendor(t, `{"id":"p"}`, checkPost))
		},
	}
}

func TestPayloads(t *testing.T) {
	for name, start := range both(t) {
		s, sink := start()
		t.Run(name, func(t *testing.T) { providertest.Golden(t, name, s, sink) })
	}
}

func TestTheWorstTextStillFits(t *testing.T) {
	for _, start := range both(t) {
		s, _ := start()
		providertest.SendWorst(t, s)
	}
}

// Fails when only the first message reveals a setting that the API never accepts, or when a webhook needs the same settings.
func TestTheAPINeedsTokenAndChannel(t *testing.T) {
	for _, c := range []struct{ path, token, channel, says string }{
		{"", "", channel, "token"},
		{"", "s3cret\n", channel, "token"},
		{"", "s3cret", "", "spec.channel"},
		{"", "s3cret", "town-square", "spec.channel"},
		{"", "s3cret", channel, ""},
		{"/hooks/x", "", "", ""},
		{"/base/hooks/x", "", "town-square", ""},
	} {
		_, err := New(provider.Config{Address: "https://chat.test" + c.path, Token: c.token, Channel: c.channel})
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Fails when the markup of the Alert's author is escaped, or when any other markup is not.
func TestTheMarkupOfTheAlertsAuthorIsKept(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	const markup = "@all <!channel> [a](https://b.test/x_y?c&d) *c*"
	const escaped = "@\u200Ball &lt;\\!channel&gt; \\[a\\](https://b.test/x_y?c&d) \\*c\\*"
	n.Event.Message = markup
	n.Event.Metadata = map[string]string{"summary": markup, "x": markup}
	n.Authored = []string{"summary"}
	a := newAttachment(n)
	if a.Text != escaped || a.Fields[0].Value != markup || a.Fields[1].Value != escaped {
		t.Errorf("got %+v", a)
	}
	for _, s := range []string{"@all", "<!channel>", "]("} {
		if strings.Contains(a.Fallback, s) {
			t.Errorf("the fallback %q holds %q", a.Fallback, s)
		}
	}
}

// Fails when a reference to a character stays one within an address. Mattermost makes no link of some addresses, such as those whose host
// has a "_". In such a text it replaces the references, and then looks for mentions.
func TestNoMentionIsHiddenInAnAddress(t *testing.T) {
	s, sink := both(t)["webhook"]()
	n := providertest.Notifications(t)["info"]
	for _, at := range []string{"&#64;", "&#x40;", "&#X00040;", "&commat;"} {
		n.Event.Message = "see foohttps://b.test/" + at + "all https://b_c.test/" + at + "here https://b.test/?c=d&e=f;g"
		if err := s.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		var m struct{ Attachments []strictAttachment }
		if err := json.Unmarshal(sink.Last(t).Body, &m); err != nil {
			t.Fatal(err)
		}
		text := m.Attachments[0].Text
		if shown := html.UnescapeString(text); strings.Contains(shown, "@") || !strings.Contains(text, "https://b.test/?c=d&e=f;g") {
			t.Errorf("%s: sent is %q, which is read as %q", at, text, shown)
		}
	}
}

func TestMattermostsErrorsAreShownAndNothingElse(t *testing.T) {
	for body, want := range map[string]string{
		`{"id":"web.incoming_webhook.invalid.app_error","message":"hush","status_code":400}`: "HTTP 400: web.incoming_webhook.invalid.app_error",
		`{"id":"hush"}`: "HTTP 400",
		`hush`:          "HTTP 400",
	} {
		s, _ := newSender(t, provider.Config{}, "/hooks/x", providertest.Says(http.StatusBadRequest, body))
		if got := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"])); got.Reason != want {
			t.Errorf("%s: got %q, want %q", body, got.Reason, want)
		}
	}
}
