package mastodon

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

var (
	// link matches what Mastodon counts as 23 characters.
	link = regexp.MustCompile(`(?i)(?:https?|dat|dweb|ipfs|ipns|ssb|gopher|gemini)://[^\s]+`)
	// mention matches what notifies somebody: a name that follows neither a letter, digit or "_" nor a part of a URL.
	mention = regexp.MustCompile(`(?i)(?:^|[^=/\pL\pM\pN_])@[a-z0-9_]`)
)

// counted returns the length of a status as Mastodon counts it. Its characters may be of several code points, which only makes it shorter.
func counted(status string) int {
	return utf8.RuneCountInString(link.ReplaceAllString(status, strings.Repeat("x", 23)))
}

// check returns an error for a post that Mastodon refuses.
func check(r *http.Request, body []byte) error {
	var m struct{ Status string }
	if err := providertest.Decode(body, &m); err != nil {
		return err
	}
	switch {
	case r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || !strings.HasSuffix(r.URL.Path, method):
		return errors.New("method, content type or path")
	case !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer t"):
		return errors.New("The access token is invalid")
	case r.Header.Get("Idempotency-Key") != providertest.DeliveryID:
		return errors.New("Idempotency-Key")
	case strings.TrimSpace(m.Status) != m.Status || m.Status == "":
		return errors.New("blanks")
	case counted(m.Status) > 500:
		return fmt.Errorf("%d characters", counted(m.Status))
	case strings.Contains(m.Status, "\x00"):
		return errors.New("no database stores a NUL")
	}
	return nil
}

const answer = `{"id":"103254962155278888"}`

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: provider.Builder(New), Config: provider.Config{Type: "mastodon"}, Serve: providertest.Vendor(t, answer, check),
	})
}

func newSender(t *testing.T, path string, h http.HandlerFunc) (*provider.Client, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, h)
	return providertest.NewSender(t, New, provider.Config{Address: sink.URL + path, Token: "token", Network: providertest.Loopback()}), sink
}

func TestPayloads(t *testing.T) {
	s, sink := newSender(t, "", providertest.Vendor(t, answer, check))
	providertest.Golden(t, "status", s, sink)
}

func TestTheWorstTextStillFits(t *testing.T) {
	s, _ := newSender(t, "", providertest.Vendor(t, answer, check))
	providertest.SendWorst(t, s)
}

// Fails when the address of the method gets a second one, or when a path before it, or its parameters, are lost.
func TestTheAddressIsThatOfTheServerOrOfTheMethod(t *testing.T) {
	for path, want := range map[string]string{
		"": method, "/": method, "/api/v1/statuses": method, "/api/v1/statuses/": method, "/base": "/base" + method,
		"/a%2Fb/": "/a%2Fb" + method, "/a%2Fb/api/v1/statuses//": "/a%2Fb" + method, "/api/v1": "/api/v1" + method, "/?a=1": method + "?a=1",
	} {
		s, sink := newSender(t, path, nil)
		if err := s.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil {
			t.Fatal(err)
		}
		last := sink.Last(t)
		if got := strings.TrimSuffix(last.Path+"?"+last.Query.Encode(), "?"); got != want {
			t.Errorf("%q: got %s, want %s", path, got, want)
		}
	}
}

func TestATokenIsNeeded(t *testing.T) {
	for _, token := range []string{"", "s3cret\n"} {
		_, err := New(provider.Config{Address: "https://mastodon.test", Token: token})
		if err == nil || !strings.Contains(err.Error(), "token") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", token, err)
		}
	}
}

// Fails when a retry after an answer that was lost is posted again.
func TestAPostWhoseAnswerWasLostIsPostedOnce(t *testing.T) {
	var mu sync.Mutex
	attempts := map[string]int{} // by their keys: Mastodon posts one of each
	providertest.LoseAnswer(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		attempts[r.Header.Get("Idempotency-Key")]++
		_, _ = w.Write([]byte(answer))
	}, func(address string) (provider.Sender, error) {
		return New(provider.Config{Address: address, Token: "token", Network: providertest.Loopback()})
	})
	mu.Lock()
	defer mu.Unlock()
	if len(attempts) != 1 || attempts[providertest.DeliveryID] != 2 {
		t.Errorf("keys of two attempts: %v", attempts)
	}
}

func TestAStatusIsTheObjectTheMessageAndTheMetadata(t *testing.T) {
	n := providertest.Notifications(t)["error"]
	n.Event.Message = " not ready\nsince 5m <b>&amp;</b> *x* "
	n.Event.Metadata = map[string]string{"summary": "production", "b": "2", "a": "1"}
	const want = "🚨 kustomization/apps.team-a\nnot ready\nsince 5m <b>&amp;</b> *x*\n\nsummary: production\na: 1\nb: 2"
	if got := text(n); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	n.Event.Severity, n.Event.Message = event.SeverityInfo, ""
	if got := text(n); got != "💫 kustomization/apps.team-a\n\nsummary: production\na: 1\nb: 2" {
		t.Errorf("without a message: %q", got)
	}
}

// Fails when a text of an event notifies somebody, or when a mention of the Alert's author does not.
func TestOnlyTheAuthorMentionsPeople(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	for _, hostile := range []string{
		"@name", "hey @name@far.test.", "(@name)", "x\n@name", "@\u202Aname", "\x00@name", "@@name", "…@name", "https://a.test/,@name",
		"https://a.test/?q=1,@name@far.test", "_ @name",
	} {
		n.Event.Message, n.Event.Metadata = hostile, map[string]string{hostile: hostile, "summary": hostile}
		n.Event.InvolvedObject.Kind, n.Event.InvolvedObject.Name, n.Event.InvolvedObject.Namespace = hostile, hostile, hostile
		n.Authored = nil
		if got := text(n); mention.MatchString(got) {
			t.Errorf("%q: %q mentions", hostile, got)
		}
		n.Authored = []string{"summary"}
		if got := text(n); len(mention.FindAllString(got, -1)) != 1 {
			t.Errorf("%q: not the author's mention alone: %q", hostile, got)
		}
	}
	n = providertest.Notifications(t)["info"]
	n.Event.Message, n.Event.Metadata = "me@example.test, app@sha256:1", nil
	if got := text(n); !strings.HasSuffix(got, "\n"+n.Event.Message) {
		t.Errorf("no mention, and broken: %q", got)
	}
}

// Fails when a long message leaves no space for the summary, or when a post has more characters than Mastodon counts to 500, with URLs of
// which it counts more than they have.
func TestALongMessageIsCutAndTheMetadataStays(t *testing.T) {
	n := providertest.Notifications(t)["error"]
	n.Event.Metadata = map[string]string{"summary": "production", "revision": "main@sha1:abc"}
	for _, c := range []struct {
		message string
		cut     bool
	}{
		{strings.Repeat("é", 420), false},
		{strings.Repeat("é", 440), true},
		{strings.Repeat("x", 1000), true},
		{"Get https://g.io/: " + strings.Repeat("x", 405), true},
		{"Get https://g.io/: " + strings.Repeat("x", 380), false},
		{strings.Repeat("http://a.co ", 1000), true},
		{strings.Repeat("dat://a.co ", 1000), true},
		{strings.Repeat("://", 1000), true},
	} {
		n.Event.Message = c.message
		got := text(n)
		if strings.Contains(got, "…") != c.cut || counted(got) > 500 || !strings.HasPrefix(got, "🚨 kustomization/apps.team-a\n") {
			t.Errorf("%.30s: %d characters: %s", c.message, counted(got), got)
		}
		if n.Event.Metadata["b"] = strings.Repeat("dat://a.co ", 1000); counted(text(n)) > 500 {
			t.Errorf("%.30s, with URLs in the metadata: %d characters: %s", c.message, counted(text(n)), text(n))
		}
		delete(n.Event.Metadata, "b")
		const metadata = "\n\nsummary: production\nrevision: main@sha1:abc"
		if strings.Count(c.message, "://") < 2 && !strings.HasSuffix(got, metadata) {
			t.Errorf("%.30s: the metadata is cut: %s", c.message, got)
		}
	}
}

func TestMastodonsErrorsAreShownAndItsLimitIsKept(t *testing.T) {
	at := func(after time.Duration) string {
		return time.Now().Add(after).UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	for _, c := range []struct {
		status                    int
		reset, after, body, shown string
		least, most               time.Duration
	}{
		{401, "", "", `{"error":"The access token is invalid"}`, "HTTP 401: The access token is invalid", 0, 0},
		{403, at(time.Hour), "", `{"error":"This action is not allowed"}`, "HTTP 403: This action is not allowed", 0, 0},
		{422, "", "", `{"error":"Validation failed: hush"}`, "HTTP 422", 0, 0},
		{404, "", "", `Record not found`, "HTTP 404", 0, 0},
		{429, at(20 * time.Minute), "", `{"error":"Too many requests"}`, "HTTP 429: Too many requests", 19 * time.Minute, 20 * time.Minute},
		{429, at(3 * time.Hour), "", "", "HTTP 429", time.Hour, time.Hour},
		{429, at(-time.Hour), "", "", "HTTP 429", 0, 0},
		{429, "soon", "30", "", "HTTP 429", 30 * time.Second, 30 * time.Second},
		{503, "", "30", `{"error":"hush"}`, "HTTP 503", 30 * time.Second, 30 * time.Second},
	} {
		s, _ := newSender(t, "", func(w http.ResponseWriter, r *http.Request) {
			w.Header()["X-RateLimit-Reset"], w.Header()["Retry-After"] = []string{c.reset}, []string{c.after}
			providertest.Says(c.status, c.body)(w, r)
		})
		got := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"]))
		retried := c.status == 429 || c.status >= 500
		if got.Reason != c.shown || (got.Class == event.Retry) != retried || got.RetryAfter < c.least || got.RetryAfter > c.most {
			t.Errorf("%d, %s: %q, class %d after %v, want %q after %v", c.status, c.body, got.Reason, got.Class, got.RetryAfter, c.shown, c.most)
		}
	}
}
