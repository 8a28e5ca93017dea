package server

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event"
	"notifier/internal/receiver"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/receivertest"
	"notifier/internal/receiver/verify"
)

const token = receivertest.Token

// The helpers that other packages' tests use too.
var (
	client = receivertest.Client
	send   = receivertest.Send
	elapse = receivertest.Elapse
)

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

// newWebhooks returns a handler of hooks without budgets.
func newWebhooks(t testing.TB, bus receivertest.TriggersFunc, hooks ...*receiver.Hook) http.Handler {
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
	return receivertest.Serve(t, s), s
}
