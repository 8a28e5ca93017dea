package telegram

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const token = "123456:AAs3cret-token"

// build puts the address, which the type ignores, in the place of Telegram's host.
var build = provider.Builder(func(cfg provider.Config) (*provider.Client, error) {
	base := cfg.Address
	cfg.Address = "https://ignored.test"
	return newSender(cfg, base)
})

// check returns an error for a message that the Bot API refuses.
func check(r *http.Request, body []byte) error {
	var m struct {
		ChatID             string  `json:"chat_id"`
		MessageThreadID    *uint64 `json:"message_thread_id"`
		Text               string
		LinkPreviewOptions struct {
			IsDisabled bool `json:"is_disabled"`
		} `json:"link_preview_options"`
		Entities []struct {
			Type           string
			Offset, Length int
		}
	}
	if err := providertest.Decode(body, &m); err != nil {
		return err
	}
	text := utf16.Encode([]rune(m.Text))
	switch {
	case r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json":
		return errors.New("method or content type")
	case !strings.HasSuffix(r.URL.Path, "/bot"+token+"/sendMessage"):
		return errors.New("path")
	case m.ChatID == "" || strings.Contains(m.ChatID, ":"):
		return errors.New("chat_id")
	case strings.TrimSpace(m.Text) == "" || len(text) > 4096:
		return errors.New("empty, or too long")
	case len(m.Entities) > 100:
		return errors.New("too many entities")
	}
	end := 0
	for _, e := range m.Entities {
		if e.Type != "bold" || e.Length <= 0 || e.Offset < end || e.Offset+e.Length > len(text) {
			return errors.New("an entity of no kind, or out of the text")
		}
		end = e.Offset + e.Length
	}
	return nil
}

const answer = `{"ok":true,"result":{"message_id":1}}`

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: build, Config: provider.Config{Type: "telegram", Token: token, Channel: "-1001234:7"}, Serve: providertest.Vendor(t, answer, check),
	})
}

func newTest(t *testing.T, channel string, h http.HandlerFunc) (*provider.Client, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, h)
	s, err := newSender(provider.Config{Token: token, Channel: channel, Network: providertest.Loopback()}, sink.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, sink
}

func TestPayloads(t *testing.T) {
	for name, channel := range map[string]string{"chat": "@fluxalerts", "topic": "-1001234567890:7"} {
		s, sink := newTest(t, channel, providertest.Vendor(t, answer, check))
		t.Run(name, func(t *testing.T) { providertest.Golden(t, name, s, sink) })
	}
}

func TestTheWorstTextStillFits(t *testing.T) {
	s, _ := newTest(t, "1", providertest.Vendor(t, answer, check))
	providertest.SendWorst(t, s)
}

// Fails when the address of the spec is used: a tenant's bot token would be sent there.
func TestTheHostIsTelegrams(t *testing.T) {
	s, err := New(provider.Config{Address: "https://evil.test", Token: token, Channel: "1"})
	if err != nil || s.URL("bot"+token, "sendMessage").String() != "https://api.telegram.org/bot"+token+"/sendMessage" {
		t.Errorf("%v", err)
	}
}

// Fails when only the first message reveals a fault that Telegram would answer with 400 or 404, or when its text is quoted.
func TestFaultyTokensAndChatsAreNamed(t *testing.T) {
	for what, cfgs := range map[string][]provider.Config{
		"key token": {
			{Channel: "1"}, {Channel: "1", Token: "s3cret"}, {Channel: "1", Token: token + "\n"}, {Channel: "1", Token: "1:a/../s3cret"},
		},
		"spec.channel": {
			{Token: token},
			{Token: token, Channel: "name"},
			{Token: token, Channel: "-"},
			{Token: token, Channel: "1:"},
			{Token: token, Channel: "1:x"},
			{Token: token, Channel: "1:-7"},
			{Token: token, Channel: "1:2:3"},
		},
	} {
		for _, cfg := range cfgs {
			if s, err := New(cfg); err == nil || s != nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("token %q, channel %q: %v", cfg.Token, cfg.Channel, err)
			}
		}
	}
}

// Fails when offsets are counted in bytes or characters: Telegram counts UTF-16 code units.
func TestNamesAreBold(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	n.Event.Message = "𝄞 done"
	n.Event.Metadata = map[string]string{"kéy😀": "v", "other": "w"}
	m := newMessage(n)
	text := utf16.Encode([]rune(m.Text))
	var bold []string
	for _, e := range m.Entities {
		bold = append(bold, string(utf16.Decode(text[e.Offset:e.Offset+e.Length])))
	}
	if got := strings.Join(bold, "|"); got != "💫 kustomization/apps/team-a|kéy😀|other" {
		t.Errorf("got %s", got)
	}
}

// Fails when the text of an event can notify people, or the author's cannot.
func TestOnlyTheAuthorMentionsPeople(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	n.Event.Message = "@somebody, me@example.test"
	n.Event.Metadata = map[string]string{"summary": "@oncall", "other": "@somebody"}
	n.Authored = []string{"summary"}
	const want = "@\u200Bsomebody, me@example.test\n\n- summary: @oncall\n- other: @\u200Bsomebody"
	if got := newMessage(n).Text; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want it to end with %q", got, want)
	}
}

func TestTelegramSaysHowLongToWaitAndWhatIsWrong(t *testing.T) {
	for body, want := range map[string]struct {
		status int
		wait   time.Duration
		reason string
	}{
		`{"ok":false,"parameters":{"retry_after":8}}`:    {429, 8 * time.Second, "HTTP 429"},
		`{"ok":false,"parameters":{"retry_after":1e99}}`: {429, time.Hour, "HTTP 429"},
		`hush`: {429, 0, "HTTP 429"},
		`{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}`: {400, 0, "HTTP 400: Bad Request: chat not found"},
		`{"description":"Forbidden: bot was blocked by the user"}`:                  {403, 0, "HTTP 403: Forbidden: bot was blocked by the user"},
		`{"ok":false,"description":"Bad Request: chat not found: hush"}`:            {400, 0, "HTTP 400"},
		`{"description":"Not Found","parameters":{"retry_after":9}}`:                {404, 0, "HTTP 404: Not Found"},
	} {
		s, _ := newTest(t, "1", providertest.Says(want.status, body))
		got := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"]))
		if got.Reason != want.reason || got.RetryAfter != want.wait || (got.Class == event.Retry) != (want.status == 429) {
			t.Errorf("%s: %q, class %d after %v, want %+v", body, got.Reason, got.Class, got.RetryAfter, want)
		}
	}
}

func TestGroupsTakeLessThanPeople(t *testing.T) {
	for channel, want := range map[string]provider.Limit{
		"-100:7": {Rate: 1.0 / 3, Burst: 3}, "@channel": {Rate: 1.0 / 3, Burst: 3}, "7": {Rate: 1, Burst: 3},
	} {
		if s, _ := newTest(t, channel, nil); s.Limit() != want {
			t.Errorf("%s: %+v", channel, s.Limit())
		}
	}
}
