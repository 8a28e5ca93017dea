package receiver

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/verify"
)

// Each row is one answer of doc.go's list, with the result under which it is counted and the triggers it published.
func TestTheWebhookEndpointAnswers(t *testing.T) {
	const body = `{"ref":"refs/heads/main"}`
	path := Path(token, "hook", "team-a")
	with := func(change func(r *http.Request)) *http.Request {
		r := push(path, token, body)
		change(r)
		return r
	}
	event := func(name string) *http.Request {
		return with(func(r *http.Request) { r.Header.Set("X-GitHub-Event", name) })
	}
	for name, tc := range map[string]struct {
		hook      hookOption
		request   *http.Request
		status    int
		result    string
		body      string
		published int
	}{
		"a push":                         {nil, push(path, token, body), 200, "accepted", `{"accepted":true}`, 1},
		"a push to many targets":         {withTargets("a", "b", "c"), push(path, token, body), 200, "accepted", `{"accepted":true}`, 3},
		"a push to no target":            {withTargets(), push(path, token, body), 200, "accepted", `{"accepted":true}`, 0},
		"an empty body":                  {nil, push(path, token, ""), 200, "accepted", `{"accepted":true}`, 1},
		"a listed event":                 {withEvents("Push", "release"), event("push"), 200, "accepted", `{"accepted":true}`, 1},
		"a listed event in other case":   {withEvents("push"), event("PUSH"), 200, "accepted", `{"accepted":true}`, 1},
		"an event that is not listed":    {withEvents("push"), event("issues"), 400, "event", `{"reason":"event not listed"}`, 0},
		"no event where some are listed": {withEvents("push"), event(""), 400, "event", `{"reason":"event not listed"}`, 0},
		"a ping":                         {nil, event("ping"), 200, "ping", `{"accepted":true,"ping":true}`, 0},
		"a ping that is not listed":      {withEvents("push"), event("ping"), 200, "ping", `{"accepted":true,"ping":true}`, 0},
		"a ping that is listed":          {withEvents("ping"), event("ping"), 200, "ping", `{"accepted":true,"ping":true}`, 0},
		"an unsigned ping": {nil, with(func(r *http.Request) {
			r.Header.Set("X-GitHub-Event", "ping")
			r.Header.Del("X-Hub-Signature-256")
		}), 400, "unauthentic", `{"reason":"signature missing"}`, 0},
		"events of a type that has none are ignored": {
			func(h *Hook) { withType(t, "generic")(h); withEvents("push")(h) },
			event("issues"), 200, "accepted", `{"accepted":true}`, 1,
		},
		"a wrong signature": {nil, push(path, "other", body), 400, "unauthentic", `{"reason":"signature mismatch"}`, 0},
		"no signature": {
			nil, with(func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") }), 400, "unauthentic",
			`{"reason":"signature missing"}`, 0,
		},
		"another content type": {
			nil, with(func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }), 400, "unauthentic",
			`{"reason":"content type not supported"}`, 0,
		},
		"GET": {nil, with(func(r *http.Request) { r.Method = "GET" }), 405, "method", `{"reason":"method must be POST"}`, 0},
		"a method that chi does not know": {
			nil, with(func(r *http.Request) { r.Method = "BREW" }), 405, "method",
			`{"reason":"method must be POST"}`, 0,
		},
		"a compressed body": {
			nil, with(func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }), 415, "encoding",
			`{"reason":"content encoding not supported"}`, 0,
		},
		"an encoding that is none": {
			nil, with(func(r *http.Request) { r.Header.Set("Content-Encoding", "identity") }), 200, "accepted",
			`{"accepted":true}`, 1,
		},
		"a character set in the place of an encoding": {
			nil, with(func(r *http.Request) { r.Header.Set("Content-Encoding", "UTF-8") }), 200, "accepted",
			`{"accepted":true}`, 1,
		},
		"a suspended Receiver": {
			func(h *Hook) { h.Suspended = true }, push(path, token, body), 503, "suspended",
			`{"reason":"receiver is suspended"}`, 0,
		},
		"a suspended Receiver, to a sender without the token": {
			func(h *Hook) { h.Suspended = true }, push(path, "other", body), 400, "unauthentic",
			`{"reason":"signature mismatch"}`, 0,
		},
		"an unknown path":      {nil, push(Path(token, "nobody", "team-a"), token, body), 404, "unknown", "", 0},
		"a trailing slash":     {nil, push(path+"/", token, body), 404, "unknown", "", 0},
		"a query string":       {nil, push(path+"?a=b", token, body), 404, "unknown", "", 0},
		"an empty query":       {nil, push(path+"?", token, body), 404, "unknown", "", 0},
		"upper-case digits":    {nil, push("/hook/"+strings.ToUpper(path[6:]), token, body), 404, "unknown", "", 0},
		"an encoded character": {nil, push("/%68ook/"+path[6:], token, body), 404, "unknown", "", 0},
		"a whole URL":          {nil, push("http://example.com"+path, token, body), 404, "unknown", "", 0},
		"the root":             {nil, push("/", token, body), 404, "unknown", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			hook := newHook(t, "team-a/hook")
			if tc.hook != nil {
				tc.hook(hook)
			}
			bus := &recorder{}
			w := newWebhooks(t, newTable(t, DefaultLimits(), hook), bus)
			resp := do(w, tc.request)
			if got := bodyOf(t, resp); resp.StatusCode != tc.status || got != tc.body {
				t.Errorf("got %d %s, want %d %s", resp.StatusCode, got, tc.status, tc.body)
			}
			if bus.Count() != tc.published {
				t.Errorf("%d triggers published, want %d", bus.Count(), tc.published)
			}
			kind := hook.Verifier.Type()
			if tc.status == 404 {
				kind = noType
			}
			if n := testutil.ToFloat64(w.metrics.webhooks[kind][tc.result]); n != 1 {
				t.Errorf("counted %v times as %s of %s", n, tc.result, kind)
			}
		})
	}
}

func TestTheBodyMayHaveThreeMiBAndNotAByteMore(t *testing.T) {
	hook := newHook(t, "team-a/hook")
	bus := &recorder{}
	w := newWebhooks(t, newTable(t, unlimited(), hook), bus)
	fits := strings.Repeat("x", limit.MaxBody)
	for name, tc := range map[string]struct {
		body    string
		chunked bool
		status  int
	}{
		"3 MiB":                      {fits, false, 200},
		"3 MiB in chunks":            {fits, true, 200},
		"3 MiB and a byte":           {fits + "x", false, 413},
		"3 MiB and a byte in chunks": {fits + "x", true, 413},
	} {
		r := push(hook.Path, token, tc.body)
		var read counter
		read.Reader = strings.NewReader(tc.body)
		r.Body = io.NopCloser(&read)
		if tc.chunked {
			r.ContentLength = -1
		}
		if resp := do(w, r); resp.StatusCode != tc.status {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, tc.status)
		}
		if tc.status == 413 && !tc.chunked && read.n != 0 {
			t.Errorf("%s: %d bytes were read of a body that said it is too large", name, read.n)
		}
	}
	if bus.Count() != 2 {
		t.Errorf("%d triggers, want 2", bus.Count())
	}
}

type counter struct {
	io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

// Fails when an unknown path is 404 while Receivers are still being compiled: the sender would give up.
func TestAnUnknownPathIs503UntilEveryReceiverIsCompiled(t *testing.T) {
	table, err := NewTable(DefaultLimits(), nil)
	if err != nil {
		t.Fatal(err)
	}
	known, unknown := newHook(t, "team-a/hook"), Path(token, "nobody", "team-a")
	if err := table.Put("team-a/hook", known); err != nil {
		t.Fatal(err)
	}
	w := newWebhooks(t, table, &recorder{})
	for range 1000 { // no budget counts these: all webhooks of an ingress have one address
		resp := do(w, push(unknown, token, "{}"))
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || bodyOf(t, resp) != "" {
			t.Fatalf("before: %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
		}
	}
	if resp := do(w, push("/", token, "{}")); resp.StatusCode != 404 {
		t.Errorf("a path that can never be known: %d, want 404", resp.StatusCode)
	}
	if resp := do(w, push(known.Path, token, "{}")); resp.StatusCode != 200 {
		t.Errorf("a known path before: %d, want 200", resp.StatusCode)
	}
	table.Complete()
	if resp := do(w, push(unknown, token, "{}")); resp.StatusCode != 404 {
		t.Errorf("after: %d, want 404", resp.StatusCode)
	}
}

// Fails when the budget is charged before the check: an attacker that used the budget up would exclude a sender that knows the token.
func TestFailuresOverTheirBudgetAre429AndTheRightTokenStillWorks(t *testing.T) {
	limits := DefaultLimits()
	limits.Failure = limit.Budget{Rate: 0.1, Burst: 2}
	hook, other := newHook(t, "team-a/hook"), newHook(t, "team-a/other")
	w := newWebhooks(t, newTable(t, limits, hook, other), &recorder{})
	for i, want := range []int{400, 400, 429, 429} {
		resp := do(w, push(hook.Path, "other", "{}"))
		if resp.StatusCode != want {
			t.Errorf("failure %d: %d, want %d", i, resp.StatusCode, want)
		}
		if want == 429 && resp.Header.Get("Retry-After") != "10" {
			t.Errorf("Retry-After %q, want 10", resp.Header.Get("Retry-After"))
		}
	}
	if resp := do(w, push(hook.Path, token, "{}")); resp.StatusCode != 200 {
		t.Errorf("the right token: %d, want 200", resp.StatusCode)
	}
	if resp := do(w, push(other.Path, "other", "{}")); resp.StatusCode != 400 {
		t.Errorf("another path's first failure: %d, want 400", resp.StatusCode)
	}
}

func TestUnknownPathsOverTheirBudgetAre429PerAddress(t *testing.T) {
	limits := DefaultLimits()
	limits.Unknown = limit.Budget{Rate: 0.5, Burst: 2}
	w := newWebhooks(t, newTable(t, limits), &recorder{})
	from := func(address string) *http.Response {
		r := push("/hook/x", token, "{}")
		r.RemoteAddr = address
		return do(w, r)
	}
	for i, want := range []int{404, 404, 429} {
		resp := from("192.0.2.1:1000")
		if resp.StatusCode != want || bodyOf(t, resp) != "" || want == 429 && resp.Header.Get("Retry-After") != "2" {
			t.Errorf("try %d: %d, Retry-After %q; want %d", i, resp.StatusCode, resp.Header.Get("Retry-After"), want)
		}
	}
	if resp := from("192.0.2.2:1000"); resp.StatusCode != 404 {
		t.Errorf("another address: %d, want 404", resp.StatusCode)
	}
}

type panicking struct{ verify.Verifier }

func (panicking) Begin(context.Context, http.Header) (verify.Check, error) { panic("token " + token) }

func TestAnOptionThatIsMissingIsNamed(t *testing.T) {
	_, err := NewWebhooks(WebhooksOptions{})
	for _, want := range []string{"Table", "Triggers", "Log"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}
