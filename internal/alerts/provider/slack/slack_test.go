package slack

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{New: provider.Builder(New), Config: provider.Config{Type: "slack", Channel: "ops"}})
}

func TestWebhookPayloads(t *testing.T) {
	sink := providertest.NewSink(t, nil)
	s := providertest.NewSender(t, New, provider.Config{
		Address: sink.URL + "/services/T0/B0/x", Channel: "ops", Network: providertest.Loopback(),
	})
	providertest.Golden(t, "webhook", s, sink)
}

// newAPI returns a Sender to Slack's API, with a proxy that connects it to a server that answers with h.
func newAPI(t *testing.T, h http.HandlerFunc) (*Sender, *providertest.Sink) {
	t.Helper()
	return newAPIAt(t, "https://slack.com/api/chat.postMessage", h)
}

// newAPIAt is newAPI for another address of the API.
func newAPIAt(t *testing.T, address string, h http.HandlerFunc) (*Sender, *providertest.Sink) {
	t.Helper()
	ca := providertest.NewCA(t)
	sink := ca.NewTLSSink(t, h, false, "slack.com", "team.slack.com", "slack-gov.com")
	network := providertest.Loopback()
	network.Resolver = providertest.DNS(t, map[string]string{"slack.com": "192.0.2.1"})
	return providertest.NewSender(t, New, provider.Config{
		Address: address, Token: "xoxb-token", Channel: "C123", Username: "flux",
		Network: network, TLS: provider.TLS{CA: ca.PEM()},
		Proxy: provider.Proxy{Address: providertest.HTTPProxy(t, sink.Listener.Addr(), "u", "p").URL, Username: "u", Password: "p"},
	}), sink
}

func TestAPIPayloads(t *testing.T) {
	s, sink := newAPI(t, providertest.Says(200, `{"ok":true,"channel":"C123","ts":"1.2"}`))
	providertest.Golden(t, "api", s, sink)
	if path := sink.Last(t).Path; path != "/api/chat.postMessage" {
		t.Errorf("the API was called at %s", path)
	}
}

// Fails when an answer of HTTP 200 counts as a success although it does not say so, or when an unknown code is shown.
func TestAPIAnswersAreReadAndClassified(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		class  event.Class
		label  string
		reason string
	}{
		"no such channel":     {200, `{"ok":false,"error":"channel_not_found"}`, event.Permanent, "rejected", "Slack: channel_not_found"},
		"a bad token":         {200, `{"ok":false,"error":"invalid_auth"}`, event.Permanent, "rejected", "Slack: invalid_auth"},
		"too fast":            {200, `{"ok":false,"error":"ratelimited"}`, event.Retry, "http_429", "Slack: ratelimited"},
		"trouble of its own":  {200, `{"ok":false,"error":"fatal_error"}`, event.Retry, "rejected", "Slack: fatal_error"},
		"a code not known":    {200, `{"ok":false,"error":"xoxb-token"}`, event.Retry, "rejected", "Slack refused the message with an unknown code"},
		"no code":             {200, `{"ok":false}`, event.Retry, "rejected", "Slack refused the message with an unknown code"},
		"no word at all":      {200, `{}`, event.Retry, "rejected", "Slack refused the message with an unknown code"},
		"an answer not JSON":  {200, `<html>xoxb-token`, event.Retry, "reply", "answer is a web page"},
		"an answer in XML":    {200, `<?xml version="1.0"?>`, event.Retry, "reply", "answer is not one of Slack's API"},
		"an empty answer":     {200, ``, event.Retry, "reply", "answer is not one of Slack's API"},
		"an answer too long":  {200, `{"ok":true,"x":"` + strings.Repeat("x", maxReply) + `"}`, event.Retry, "reply", "answer is too long"},
		"a refusal by status": {403, `{"ok":false,"error":"xoxb-token"}`, event.Permanent, "http_4xx", "HTTP 403"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newAPI(t, providertest.Says(c.status, c.body))
			got := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"]))
			if got.Class != c.class || got.Label != c.label || got.Reason != c.reason {
				t.Errorf("got class %d, %s, %q; want class %d, %s, %q", got.Class, got.Label, got.Reason, c.class, c.label, c.reason)
			}
		})
	}
}

// Fails when a known word of Slack is left out, or when any other part of an answer is shown, even its length: the answer is from the
// tenant's address.
func TestSlacksOwnWordsAreShownAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		status       int
		body, reason string
	}{
		"a channel that is gone":    {404, "channel_not_found", "HTTP 404: channel_not_found"},
		"a webhook that is gone":    {404, "no_service\n", "HTTP 404: no_service"},
		"a wrong token":             {403, "invalid_token", "HTTP 403: invalid_token"},
		"trouble of its own":        {500, "rollup_error", "HTTP 500: rollup_error"},
		"a workflow's word":         {400, `{"ok":false,"error":"invalid_workflow_input"}`, "HTTP 400: invalid_workflow_input"},
		"a word that nobody knows":  {404, "xoxb-secret", "HTTP 404"},
		"a known word and more":     {404, "no_service xoxb-secret", "HTTP 404"},
		"an unknown word in JSON":   {404, `{"error":"xoxb-secret"}`, "HTTP 404"},
		"a word in another's JSON":  {404, `{"message":"no_service"}`, "HTTP 404"},
		"nothing":                   {404, "", "HTTP 404"},
		"a known word after much":   {404, strings.Repeat(" ", provider.MaxRefusal) + "no_service", "HTTP 404"},
		"a known word before much":  {404, "no_service" + strings.Repeat(" ", provider.MaxRefusal), "HTTP 404"},
		"no text":                   {404, "\xff\x00", "HTTP 404"},
		"a redirect with the words": {302, "no_service", "HTTP 302 (redirects are not followed): no_service"},
	} {
		sink := providertest.NewSink(t, providertest.Says(c.status, c.body))
		s := providertest.NewSender(t, New, provider.Config{Address: sink.URL, Network: providertest.Loopback()})
		if got := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"])); got.Reason != c.reason {
			t.Errorf("%s: got %q, want %q", name, got.Reason, c.reason)
		}
		_ = s.Close()
	}
}

// Fails when the message that the answer repeats is decoded: an unknown form of it would have the send repeated.
func TestAnOddSuccessOfTheAPIIsASuccess(t *testing.T) {
	s, _ := newAPI(t, providertest.Says(200, `{"ok":true,"ts":1,"message":{"blocks":7,"attachments":"x"}}`))
	if err := s.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil {
		t.Errorf("got %v, want success", err)
	}
}

// forms are addresses of chat.postMessage.
var forms = []string{
	"https://slack.com/api/chat.postMessage", " https://slack-gov.com/api/chat.postMessage\n", "https://SLACK.com/api/chat.postMessage",
	"https://slack.com:443/api/chat.postMessage", "https://team.slack.com/api/chat.postMessage", "https://slack.com/api/chat.postMessage/",
	"https://slack.com/api/chat.postMessage?pretty=1",
}

// Fails when a refusal by the API, whose status is 200, counts as a success because the address is written in another form (invariant E2).
func TestARefusalOfTheAPIIsReadUnderEveryFormOfItsAddress(t *testing.T) {
	for _, address := range forms {
		s, sink := newAPIAt(t, address, providertest.Says(200, `{"ok":false,"error":"channel_not_found"}`))
		got := s.Send(t.Context(), providertest.Notifications(t)["info"])
		if e := event.AsError(got); got == nil || e.Reason != "Slack: channel_not_found" {
			t.Errorf("%s: got %v, want a refusal", address, got)
		}
		if path := sink.Last(t).Path; path != "/api/chat.postMessage" {
			t.Errorf("%s: the API was called at %s", address, path)
		}
	}
}

// Fails when a refusal by the API behind a gateway, whose status is 200, counts as a success (invariant E2), when an answer of other servers of
// webhooks counts as a refusal, or when the address is not called as it is.
func TestARefusalOfTheAPIBehindAGatewayIsRead(t *testing.T) {
	for answer, want := range map[string]string{
		`{"ok":false,"error":"channel_not_found"}`: "Slack: channel_not_found", `{"ok":false,"error":"x"}`: "Slack refused the message with an unknown code",
		`{"ok":true}`: "", `{"ok":true,"error":"x"}`: "", `{"ok":false}`: "", `{"error":"x"}`: "", `ok`: "", ``: "", `<html>`: "",
	} {
		for _, path := range []string{"/slack/chat.postMessage?a=b", "/api/chat.postMessage/"} {
			sink := providertest.NewSink(t, providertest.Says(200, answer))
			s := providertest.NewSender(t, New, provider.Config{Address: sink.URL + path, Network: providertest.Loopback()})
			got := ""
			if err := s.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil {
				got = event.AsError(err).Reason
			}
			if called := sink.Last(t).Path; got != want || !strings.HasPrefix(path, called) || called == "" {
				t.Errorf("%s of %s: got %q, want %q; called at %s", answer, path, got, want, called)
			}
			_ = s.Close()
		}
	}
}

// Fails when another method of the API, which posts nothing and may answer that it succeeded, is taken for an incoming webhook.
func TestAnotherMethodOfTheAPIIsRefused(t *testing.T) {
	if _, err := New(provider.Config{Address: "https://slack.com/api/api.test", Token: "t", Channel: "c"}); err == nil {
		t.Error("New took another method than chat.postMessage")
	}
}

func TestAPINeedsTokenAndChannel(t *testing.T) {
	for _, address := range forms {
		for _, cfg := range []provider.Config{{Address: address, Token: "t"}, {Address: address, Channel: "c"}} {
			if _, err := New(cfg); err == nil {
				t.Errorf("New took %q without token or channel", address)
			}
		}
	}
}

func TestWebhookTokenIsABearerToken(t *testing.T) {
	sink := providertest.NewSink(t, nil)
	s := providertest.NewSender(t, New, provider.Config{Address: sink.URL, Token: "abc", Network: providertest.Loopback()})
	if err := s.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil {
		t.Fatal(err)
	}
	if got := sink.Last(t).Header.Get("Authorization"); got != "Bearer abc" {
		t.Errorf("Authorization is %q", got)
	}
	if _, err := New(provider.Config{Address: sink.URL, Token: "a\nb", Network: providertest.Loopback()}); err == nil {
		t.Error("New took a token over two lines")
	}
}

// newWebhook returns a Sender to an incoming webhook at the address.
func newWebhook(t *testing.T, address string) *Sender {
	t.Helper()
	return providertest.NewSender(t, New, provider.Config{Address: address})
}

// Fails when a text that is harmless at Slack notifies people or hides an address at another server that takes Slack's messages: Mattermost
// obeys "@channel" and Markdown in attachments and their fields.
func TestATextNotifiesNobodyAtAnotherServerThanSlack(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	const markup = "@channel <!here> [a](https://b.test) main@sha1:x"
	n.Event.Message = markup
	n.Event.Metadata = map[string]string{"summary": markup, "annotation": markup}
	n.Authored = []string{"summary"}
	const z = "\u200B"
	for address, want := range map[string]string{
		"https://hooks.slack.com/services/T0/B0/x": "@channel &lt;!here&gt; [a](https://b.test) main@sha1:x",
		"https://mattermost.example.com/hooks/x":   "@" + z + "channel &lt;!here&gt; [a]" + z + "(https://b.test) main@sha1:x",
	} {
		a := newWebhook(t, address).message(n).Attachments[0]
		if a.Text != want || a.Fallback != "kustomization/apps.team-a: "+want || a.Fields[0].Value != markup || a.Fields[1].Value != want {
			t.Errorf("%s: got %+v", address, a)
		}
	}
}

// Fails when the markup of the Alert's author is escaped, or when any other markup is not.
func TestTheMarkupOfTheAlertsAuthorIsKept(t *testing.T) {
	s := newWebhook(t, "https://hooks.slack.com/services/T0/B0/x")
	n := providertest.Notifications(t)["info"]
	const markup = "<!here> & <https://a|b>"
	n.Event.Message = markup
	n.Event.Metadata = map[string]string{"summary": markup, "annotation": markup}
	n.Authored = []string{"summary"}
	a := s.message(n).Attachments[0]
	const escaped = "&lt;!here&gt; &amp; &lt;https://a|b&gt;"
	if a.Text != escaped || len(a.Fields) != 2 || a.Fields[0].Value != markup || a.Fields[1].Value != escaped {
		t.Errorf("text %q, fields %+v", a.Text, a.Fields)
	}
	n.Authored = nil // an old delivery
	if got := s.message(n).Attachments[0].Fields[0].Value; got != escaped {
		t.Errorf("of nobody known: %q", got)
	}
}

// Fails when Slack is not told that there is markup in the fields: it shows that of the Alert's author as plain text. Fails also when it is told so
// though no author wrote any.
func TestTheMarkupOfTheAlertsAuthorTakesEffectInFields(t *testing.T) {
	s := &Sender{onSlack: true}
	n := providertest.Notifications(t)["info"]
	n.Event.Metadata = map[string]string{"revision": "main@sha1:_a_", "summary": "*production*"}
	for _, want := range []string{"[text]", "[text fields]"} {
		if got := fmt.Sprint(s.message(n).Attachments[0].MarkdownIn); got != want {
			t.Errorf("written by %q: markup is in %s, want %s", n.Authored, got, want)
		}
		n.Authored = []string{"summary"}
	}
}

func TestTheAPIIsGivenTheTokenInAHeader(t *testing.T) {
	s, sink := newAPI(t, providertest.Says(200, `{"ok":true}`))
	if err := s.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil {
		t.Fatal(err)
	}
	if r := sink.Last(t); r.Header.Get("Authorization") != "Bearer xoxb-token" || bytes.Contains(r.Body, []byte("xoxb")) {
		t.Errorf("got %v, %s", r.Header, r.Body)
	}
}
