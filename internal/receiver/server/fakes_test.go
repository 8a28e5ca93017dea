package server

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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event"
	"notifier/internal/receiver"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/verify"
)

const token = "s3cret"

// triggersFunc is a bus for triggers.
type triggersFunc func(context.Context, event.Trigger) error

func (f triggersFunc) PublishTriggers(ctx context.Context, triggers ...event.Trigger) error {
	var errs []error
	for _, t := range triggers {
		errs = append(errs, f(ctx, t))
	}
	return errors.Join(errs...)
}

// stored is a bus that takes every trigger.
func stored(context.Context, event.Trigger) error { return nil }

// newHook returns a GitHub hook of the Receiver "namespace/name" with one target.
func newHook(t testing.TB, key string) *receiver.Hook {
	t.Helper()
	namespace, name, _ := strings.Cut(key, "/")
	verifier, err := verify.New("github", verify.Credentials{Token: []byte(token)})
	if err != nil {
		t.Fatal(err)
	}
	return &receiver.Hook{
		Namespace: namespace, Name: name, UID: "uid-" + name, Path: receiver.Path(token, name, namespace), Verifier: verifier,
		Targets: []event.Trigger{{Namespace: namespace, Receiver: name, Key: "key", Target: event.Target{Kind: "GitRepository", Name: "app"}}},
	}
}

// newWebhooks serves hooks without budgets.
func newWebhooks(t testing.TB, bus triggersFunc, hooks ...*receiver.Hook) http.Handler {
	t.Helper()
	limits := receiver.DefaultLimits()
	limits.Unknown, limits.Failure, limits.Receiver, limits.Tenant = limit.Budget{}, limit.Budget{}, limit.Budget{}, limit.Budget{}
	table, err := receiver.NewTable(limits, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hooks {
		if err := table.Put(h.Namespace+"/"+h.Name, h); err != nil {
			t.Fatal(err)
		}
	}
	table.Complete()
	w, err := receiver.NewWebhooks(receiver.WebhooksOptions{
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

// serveReal serves h on a real listener until the test ends, and returns the base URL.
func serveReal(t testing.TB, h http.Handler, change func(*Options)) (url string, s *Server) {
	t.Helper()
	o := DefaultOptions()
	o.Name, o.Addr, o.Handler, o.Log = "test", "127.0.0.1:0", h, slog.New(slog.DiscardHandler)
	if change != nil {
		change(&o)
	}
	s, err := New(o)
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

type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}
