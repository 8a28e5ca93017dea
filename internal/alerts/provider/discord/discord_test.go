package discord

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

// check returns an error for a message that Discord refuses by the limits in its documentation of webhooks and embeds.
func check(r *http.Request, body []byte) error {
	var m struct {
		Username        *string
		AllowedMentions struct{ Parse []string } `json:"allowed_mentions"`
		Embeds          []struct {
			Author      struct{ Name string }
			Description *string
			Color       uint32
			Timestamp   *time.Time
			Fields      []struct{ Name, Value string }
		}
	}
	errs := []error{providertest.Decode(body, &m)}
	wrong := func(is bool, what string) {
		if is {
			errs = append(errs, errors.New(what))
		}
	}
	wrong(r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json", "method or content type")
	wrong(strings.HasSuffix(r.URL.Path, "slack"), "path")
	wrong(r.URL.Query().Get("wait") != "true", "wait")
	wrong(m.AllowedMentions.Parse == nil || len(m.AllowedMentions.Parse) > 0, "allowed_mentions")
	wrong(len(m.Embeds) != 1, "embeds")
	between := func(s string, low, high int, what string) int {
		n := provider.UTF16Len(s)
		wrong(n > high || provider.UTF16Len(strings.TrimSpace(s)) < low, fmt.Sprintf("%s of %d characters", what, n))
		return n
	}
	if m.Username != nil {
		between(*m.Username, 1, 80, "username")
		wrong(strings.ContainsAny(*m.Username, "@#:`\r\n") || slices.Contains([]string{"everyone", "here"}, *m.Username), "username")
		wrong(strings.Contains(strings.ToLower(*m.Username), "discord"), "username")
	}
	for _, e := range m.Embeds {
		total := between(e.Author.Name, 1, 256, "author")
		if e.Description != nil {
			total += between(*e.Description, 1, 4096, "description")
		}
		for _, f := range e.Fields {
			total += between(f.Name, 1, 256, "name") + between(f.Value, 1, 1024, "value")
		}
		wrong(total > 6000 || len(e.Fields) > 25 || e.Color > 0xffffff, "size or color of the embed")
	}
	return errors.Join(errs...)
}

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New:    provider.Builder(New),
		Config: provider.Config{Type: "discord"}, Serve: providertest.Vendor(t, "", check), Path: "api/webhooks/1/path-s3cret/slack",
	})
}

func newSender(t *testing.T, path string, h http.HandlerFunc) (*provider.Client, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, h)
	return providertest.NewSender(t, New, provider.Config{Address: sink.URL + path, Network: providertest.Loopback()}), sink
}

func TestPayloads(t *testing.T) {
	s, sink := newSender(t, "/api/webhooks/1/x/slack?thread_id=7", providertest.Vendor(t, "", check))
	providertest.Golden(t, "webhook", s, sink)
}

// Fails when Flux's "/slack" stays, or the query is lost or moved.
func TestAddressesWithAndWithoutSlackAreOneWebhook(t *testing.T) {
	for path, want := range map[string]string{
		"/api/webhooks/1/x":                       "/api/webhooks/1/x?",
		"/api/webhooks/1/x/":                      "/api/webhooks/1/x?",
		"/api/webhooks/1/x/slack":                 "/api/webhooks/1/x?",
		"/api/webhooks/1/x/slack/?thread_id=7":    "/api/webhooks/1/x?thread_id=7&",
		"/api/webhooks/1/x?thread_id=7":           "/api/webhooks/1/x?thread_id=7&",
		"/api/webhooks/1/myslack":                 "/api/webhooks/1/myslack?",
		"/api/webhooks/1/a%2Fb/slack?thread_id=7": "/api/webhooks/1/a%2Fb?thread_id=7&",
	} {
		s, sink := newSender(t, path, nil)
		if err := s.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil {
			t.Fatal(err)
		}
		want += "wait=true"
		if r := sink.Last(t); r.Path+"?"+r.Query.Encode() != want {
			t.Errorf("%s: called %s?%s, want %s", path, r.Path, r.Query.Encode(), want)
		}
	}
}

func TestTheWorstTextStillFits(t *testing.T) {
	s, _ := newSender(t, "/api/webhooks/1/x", providertest.Vendor(t, "", check))
	providertest.SendWorst(t, s)
}

// Fails when the wait that Discord asks for is read in one of its two forms only, or without a bound.
func TestDiscordSaysHowLongToWait(t *testing.T) {
	for name, c := range map[string]struct {
		status                  int
		body, reset, retryAfter string
		want                    time.Duration
	}{
		"in the body":       {429, `{"message":"hush","retry_after":64.5,"global":false}`, "", "", 64500 * time.Millisecond},
		"in a header":       {429, ``, "2.5", "", 2500 * time.Millisecond},
		"in Retry-After":    {429, `{}`, "", "3", 3 * time.Second},
		"in all":            {429, `{"retry_after":1}`, "2", "4", 4 * time.Second},
		"out of bounds":     {429, `{"retry_after":1e300}`, "NaN", "", time.Hour},
		"no number":         {429, `{"retry_after":"x"}`, "x", "", 0},
		"of another status": {404, `{"retry_after":64.5}`, "2.5", "", 0},
	} {
		s, _ := newSender(t, "/x", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-RateLimit-Reset-After", c.reset)
			w.Header().Set("Retry-After", c.retryAfter)
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		})
		got := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"]))
		if got.RetryAfter != c.want || (got.Class == event.Retry) != (c.status == 429) {
			t.Errorf("%s: class %d after %v, want %v", name, got.Class, got.RetryAfter, c.want)
		}
	}
}

func TestDiscordsErrorsAreNamedAndNothingElseIsShown(t *testing.T) {
	for body, want := range map[string]string{
		`{"message":"hush","code":10015}`: "HTTP 404: Unknown Webhook",
		`{"message":"hush","code":1}`:     "HTTP 404",
		`{"code":"10015"}`:                "HTTP 404",
		`Unknown Webhook`:                 "HTTP 404",
	} {
		s, _ := newSender(t, "/x", providertest.Says(http.StatusNotFound, body))
		if got := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"])); got.Reason != want {
			t.Errorf("%s: got %q, want %q", body, got.Reason, want)
		}
	}
}

// Fails when Discord is not asked to wait: it answers 204 before it saves the message, and does not say whether it did.
func TestE2AMessageThatDiscordDoesNotSaveIsNoSuccess(t *testing.T) {
	for _, query := range []string{"", "?thread_id=7", "?wait=false"} {
		s, sink := newSender(t, "/api/webhooks/1/x"+query, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("wait") != "true" {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"message":"hush","code":240000}`)
		})
		err := s.Send(t.Context(), providertest.Notifications(t)["info"])
		if err == nil || event.AsError(err).Reason != "HTTP 400: Message blocked by harmful links filter" {
			t.Errorf("%q: got %v, want Discord's refusal", query, err)
		}
		if got := sink.Last(t).Query; len(got["wait"]) != 1 {
			t.Errorf("%q: called with %v", query, got)
		}
	}
}

// Fails when a name that Discord refuses is sent: the message would be lost because of its author's name.
func TestANameThatDiscordRefusesIsLeftOut(t *testing.T) {
	for name, want := range map[string]string{
		"flux": "flux", "My Discord bot": "", "everyone": "", "Here": "", "Clyde": "", "@here": "", "a:b#c`": "abc", " \n": "",
		strings.Repeat("x", 79) + "😀": strings.Repeat("x", 66) + "… (truncated)",
	} {
		if got := username(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// Fails when the markup of the Alert's author is escaped, or when any other markup is not.
func TestTheMarkupOfTheAlertsAuthorIsKept(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	const markup, escaped = "[a](https://b.test/x_y) **c** <@1>", `\[a\](https://b.test/x_y) \*\*c\*\* \<@1\>`
	n.Event.Message = markup
	n.Event.Metadata = map[string]string{"summary": markup, "annotation": markup}
	n.Authored = []string{"summary"}
	m := newMessage(n, "").Embeds[0]
	if m.Description != escaped || m.Fields[0].Value != markup || m.Fields[1].Value != escaped {
		t.Errorf("got %+v", m)
	}
}

// Fails when the limit depends on a part of the host's name.
func TestOnlyDiscordsHostsAreLimited(t *testing.T) {
	for address, limited := range map[string]bool{
		"https://discord.com/api/webhooks/1/x": true, "https://PTB.discord.com./api/webhooks/1/x": true,
		"https://discordapp.com/api/webhooks/1/x": true,
		"https://notdiscord.com/x":                false, "https://discord.com.example.test/x": false,
	} {
		s := providertest.NewSender(t, New, provider.Config{Address: address})
		if got := s.Limit(); (got == provider.Limit{Rate: 0.5, Burst: 5}) != limited || !limited && got != (provider.Limit{}) {
			t.Errorf("%s: %+v", address, got)
		}
	}
}
