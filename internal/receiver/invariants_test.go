package receiver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/receivertest"
)

// T3: fails when the answer is written before the publisher returned, or when one target's failure is dropped.
func TestT3NoAnswerBeforeEveryTargetIsOnDisk(t *testing.T) {
	hook := newHook(t, "team-a/hook", withTargets("a", "b", "c"))
	started, release := make(chan string, 3), make(chan struct{})
	w := newWebhooks(t, newTable(t, unlimited(), hook), triggersFunc(func(_ context.Context, tr event.Trigger) error {
		started <- tr.Target.Name
		if tr.Target.Name == "b" {
			<-release
		}
		return nil
	}))
	answered := make(chan *http.Response, 1)
	go func() { answered <- do(w, push(hook.Path, token, "{}")) }()
	for range 3 {
		<-started // all three at once: none waits for another's acknowledgement
	}
	select {
	case resp := <-answered:
		t.Fatalf("answered %d before the stream acknowledged", resp.StatusCode)
	default:
	}
	close(release)
	if resp := <-answered; resp.StatusCode != http.StatusOK {
		t.Errorf("got %d, want 200", resp.StatusCode)
	}
}

// T3: fails when an error of the bus is answered with anything but a 503 that asks for another try.
func TestT3AWebhookThatWasNotStoredIs503(t *testing.T) {
	for name, bus := range map[string]triggersFunc{
		"an error":                   func(context.Context, event.Trigger) error { return errors.New("no stream") },
		"a panic":                    func(context.Context, event.Trigger) error { panic("bus") },
		"a bus that does not answer": func(ctx context.Context, _ event.Trigger) error { <-ctx.Done(); return ctx.Err() },
		"one of three that fails": func(_ context.Context, tr event.Trigger) error {
			if tr.Target.Name == "b" {
				return errors.New("no stream")
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hook := newHook(t, "team-a/hook", withTargets("a", "b", "c"))
				w := newWebhooks(t, newTable(t, unlimited(), hook), bus)
				begin := time.Now()
				resp := do(w, push(hook.Path, token, "{}"))
				if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
					t.Errorf("got %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
				}
				if took := time.Since(begin); took > publishTime {
					t.Errorf("answered after %s, GitHub waits 10s", took)
				}
			})
		})
	}
}

// T4: fails when a webhook over the Receiver's budget is refused, or answered without a publish.
func TestT4OverItsBudgetADeliveryIsFoldedAndStillPublished(t *testing.T) {
	limits := DefaultLimits()
	limits.Receiver = limit.Budget{Rate: 0.001, Burst: 3}
	hook := newHook(t, "team-a/hook")
	bus := &recorder{}
	w := newWebhooks(t, newTable(t, limits, hook), bus)
	var answers []int
	for range 5 {
		resp := do(w, push(hook.Path, token, "{}"))
		answers = append(answers, resp.StatusCode)
		if body := bodyOf(t, resp); resp.StatusCode == 202 && body != `{"accepted":true,"folded":true}` {
			t.Errorf("202 says %s", body)
		}
	}
	if diff := cmp.Diff([]int{200, 200, 200, 202, 202}, answers); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if bus.Count() != 5 {
		t.Errorf("%d publishes, want 5", bus.Count())
	}
}

// T4: fails when the trigger carries the time of a template, or a time before the webhook's arrival.
func TestT4TheTriggerSaysWhenTheWebhookWasAccepted(t *testing.T) {
	hook := newHook(t, "team-a/hook")
	bus := &recorder{}
	w := newWebhooks(t, newTable(t, unlimited(), hook), bus)
	begin := time.Now()
	do(w, push(hook.Path, token, "{}"))
	end := time.Now()
	got := bus.Published[0]
	if got.Accepted.Before(begin) || got.Accepted.After(end) {
		t.Errorf("accepted at %s, the webhook came between %s and %s", got.Accepted, begin, end)
	}
	got.Accepted = time.Time{}
	if diff := cmp.Diff(hook.Targets[0], got); diff != "" {
		t.Errorf("trigger (-want +got):\n%s", diff)
	}
}

// T5: fails when an answer to a path that is not served depends on the path, the method, the headers or the body. The paths are those of a
// deleted Receiver, of a refused one, of one in another namespace, and of none.
func TestT5EveryPathThatIsNotServedIsAnsweredAlike(t *testing.T) {
	deleted := newHook(t, "team-a/deleted")
	refused := newHook(t, "team-b/refused", func(h *Hook) { h.Targets[0].Namespace = "team-a" })
	table := newTable(t, unlimited(), deleted)
	table.Delete("team-a/deleted")
	if table.Put("team-b/refused", refused) == nil {
		t.Fatal("Put took it")
	}
	bus := &recorder{}
	w := newWebhooks(t, table, bus)
	var first string
	for _, path := range []string{Path(token, "none", "team-a"), deleted.Path, refused.Path, "/hook/x", "/", "/metrics", "/hook/../x"} {
		for _, method := range []string{"POST", "GET", "OPTIONS", "BREW"} {
			r := push(path, token, "{}")
			r.Method = method
			r.Header.Set("Content-Encoding", "gzip")
			resp := do(w, r)
			var answer bytes.Buffer
			if err := resp.Write(&answer); err != nil {
				t.Fatal(err)
			}
			if first == "" {
				first = answer.String()
			}
			if answer.String() != first {
				t.Errorf("%s %s:\n%swant\n%s", method, path, answer.String(), first)
			}
		}
	}
	if !strings.HasPrefix(first, "HTTP/1.1 404") || bus.Count() != 0 {
		t.Errorf("answer %q, %d publishes", first, bus.Count())
	}
}

// T5: fails when a rejected webhook reaches the publisher or keeps its body: the handler's own cost of a rejection is bounded in
// allocations and in bytes, for any size of the body.
func TestT5ARejectedWebhookIsCheap(t *testing.T) {
	hook := newHook(t, "team-a/hook")
	w := newWebhooks(t, newTable(t, DefaultLimits(), hook), triggersFunc(func(context.Context, event.Trigger) error {
		t.Error("a rejected webhook was published")
		return nil
	}))
	body := bytes.Repeat([]byte("x"), limit.MaxBody)
	for name, r := range map[string]*http.Request{
		"an unknown path": push(Path("other", "hook", "team-a"), "other", ""),
		"a bad signature": push(hook.Path, "other", ""),
		"no signature":    httptest.NewRequest(http.MethodPost, hook.Path, nil),
		"a wrong method":  httptest.NewRequest(http.MethodGet, hook.Path, nil),
	} {
		reader := bytes.NewReader(body)
		r.Body, r.ContentLength = io.NopCloser(reader), limit.MaxBody
		reject := func() {
			reader.Reset(body)
			nothing := discard{}
			w.ServeHTTP(nothing, r)
		}
		reject()         // fills the pools
		const runs = 300 // with the race detector, pools lose a quarter of their objects
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			reject()
		}
		runtime.ReadMemStats(&after)
		allocs, size := (after.Mallocs-before.Mallocs)/runs, (after.TotalAlloc-before.TotalAlloc)/runs
		if allocs > 25 || size > 8<<10 {
			t.Errorf("%s with a body of 3 MiB: %d allocations, %d bytes", name, allocs, size)
		}
	}
}

// discard is a ResponseWriter that keeps nothing.
type discard struct{}

func (discard) Header() http.Header         { return make(http.Header) }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

// E7: fails when a line contains the path, the signature or the body, or when a flood writes one line per request.
func TestE7TheLogHoldsNoSecretAndDoesNotGrowWithAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes, however busy the machine
		var lines receivertest.Buffer
		limits := DefaultLimits()
		hook := newHook(t, "team-a/hook")
		broken := newHook(t, "team-a/broken", func(h *Hook) { h.Verifier = panicking{h.Verifier} })
		w, err := NewWebhooks(WebhooksOptions{
			Table: newTable(t, limits, hook, broken), Triggers: &recorder{}, Registerer: prometheus.NewRegistry(),
			Log: slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		if err != nil {
			t.Fatal(err)
		}
		const body = "body-mark"
		for range 1000 {
			do(w, push(hook.Path, token, body))
			do(w, push(hook.Path, "other", body))
			do(w, push(Path(token, "nobody", "team-a"), token, body))
		}
		do(w, push(broken.Path, token, body))
		out := lines.String()
		for what, secret := range map[string]string{
			"token": token, "path": hook.Path[6:], "unknown path": Path(token, "nobody", "team-a")[6:], "body": body,
			"signature": sign(token, body)[7:], "panicking Receiver's path": broken.Path[6:],
		} {
			if strings.Contains(out, secret) {
				t.Errorf("the log holds a %s", what)
			}
		}
		if n := strings.Count(out, "msg=webhook"); n == 0 || n > 200 {
			t.Errorf("%d lines for 2000 outcomes", n)
		}
	})
}
