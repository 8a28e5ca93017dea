package receiver

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/server"
	"notifier/internal/receiver/verify"
)

const token = "s3cret"

// triggersFunc is a bus for triggers.
type triggersFunc func(context.Context, event.Trigger) error

func (f triggersFunc) PublishTriggers(ctx context.Context, triggers ...event.Trigger) error {
	errs, panics := make([]error, len(triggers)), make([]any, len(triggers))
	var wg sync.WaitGroup
	for i, t := range triggers {
		wg.Go(func() {
			defer func() { panics[i] = recover() }()
			errs[i] = f(ctx, t)
		})
	}
	wg.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p) // the caller's
		}
	}
	return errors.Join(errs...)
}

// recorder is a bus that remembers what was published.
type recorder struct {
	mu        sync.Mutex
	published []event.Trigger
}

func (r *recorder) PublishTriggers(_ context.Context, triggers ...event.Trigger) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published = append(r.published, triggers...)
	return nil
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.published)
}

// hookOption changes a test's hook.
type hookOption func(*Hook)

// newHook returns a GitHub hook of the Receiver "namespace/name" with one target.
func newHook(t testing.TB, key string, options ...hookOption) *Hook {
	t.Helper()
	namespace, name, _ := strings.Cut(key, "/")
	verifier, err := verify.New("github", verify.Credentials{Token: []byte(token)})
	if err != nil {
		t.Fatal(err)
	}
	h := &Hook{
		Namespace: namespace, Name: name, UID: "uid-" + name, Created: time.Unix(1000, 0),
		Path: Path(token, name, namespace), Verifier: verifier,
	}
	withTargets("app")(h)
	for _, o := range options {
		o(h)
	}
	return h
}

func withTargets(names ...string) hookOption {
	return func(h *Hook) {
		h.Targets = nil
		for _, name := range names {
			h.Targets = append(h.Targets, event.Trigger{
				Namespace: h.Namespace, Receiver: h.Name, ReceiverUID: h.UID, Key: "key-" + name,
				Target: event.Target{APIVersion: "source.toolkit.fluxcd.io/v1", Kind: "GitRepository", Name: name},
			})
		}
	}
}

func withEvents(names ...string) hookOption {
	return func(h *Hook) { h.Events = EventSet(names) }
}

func withType(t testing.TB, kind string) hookOption {
	return func(h *Hook) {
		v, err := verify.New(kind, verify.Credentials{Token: []byte(token)})
		if err != nil {
			t.Fatal(err)
		}
		h.Verifier = v
	}
}

// unlimited are the default limits without budgets, for tests of something else.
func unlimited() Limits {
	l := DefaultLimits()
	l.Unknown, l.Failure, l.Receiver, l.Tenant = limit.Budget{}, limit.Budget{}, limit.Budget{}, limit.Budget{}
	return l
}

func newTable(t testing.TB, limits Limits, hooks ...*Hook) *Table {
	t.Helper()
	table, err := NewTable(limits, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hooks {
		if err := table.Put(h.Namespace+"/"+h.Name, h); err != nil {
			t.Fatal(err)
		}
	}
	table.Complete()
	return table
}

func newWebhooks(t testing.TB, table *Table, bus Triggers) *Webhooks {
	t.Helper()
	w, err := NewWebhooks(WebhooksOptions{
		Table: table, Triggers: bus, Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func sign(key, body string) string {
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = io.WriteString(mac, body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// push is a GitHub push to path, signed with key.
func push(path, key, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", "push")
	r.Header.Set("X-Hub-Signature-256", sign(key, body))
	return r
}

// do serves r and returns the answer.
func do(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// serveReal serves h on a real listener until the test ends, and returns the base URL.
func serveReal(t testing.TB, h http.Handler, change func(*server.Options)) (url string, s *server.Server) {
	t.Helper()
	o := server.DefaultOptions()
	o.Name, o.Addr, o.Handler, o.Log = "test", "127.0.0.1:0", h, slog.New(slog.DiscardHandler)
	if change != nil {
		change(&o)
	}
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return "http://" + s.Addr().String(), s
}

// client is an HTTP client of its own, whose connections end with the test.
func client(t testing.TB, connections int) *http.Client {
	t.Helper()
	tr := &http.Transport{MaxIdleConnsPerHost: connections, MaxIdleConns: connections}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

// send sends a push over c and returns the status.
func send(ctx context.Context, c *http.Client, base, path, key, body string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", "push")
	r.Header.Set("X-Hub-Signature-256", sign(key, body))
	resp, err := c.Do(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Body.Close()
}

// elapse lets time pass on the clock of a synctest bubble.
func elapse(d time.Duration) { <-time.After(d) }

// first returns the route of the Receiver that has the most right to a path, nil for none.
func (t *Table) first(path string) *route {
	s, _ := t.lookup(path)
	if s == nil {
		return nil
	}
	return s.routes[0]
}

const issuerURL = "https://issuer.test"

// changeMerged is a CDEvent.
const changeMerged = `{"context":{"version":"0.4.1","id":"271069a8","source":"/ci/a","type":"dev.cdevents.change.merged.0.2.0",` +
	`"timestamp":"2023-03-20T14:27:05.315384Z"},"subject":{"id":"pr-42","source":"/git/a","type":"change","content":` +
	`{"repository":{"id":"a/b","source":"https://example.org"}}}}`
