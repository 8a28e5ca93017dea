package receiver

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/receivertest"
	"notifier/internal/receiver/server"
	"notifier/internal/receiver/verify"
)

const token = receivertest.Token

// The fakes and helpers that other packages' tests use too.
type (
	triggersFunc = receivertest.TriggersFunc
	recorder     = receivertest.Recorder
)

var (
	sign   = receivertest.Sign
	push   = receivertest.Push
	do     = receivertest.Do
	bodyOf = receivertest.BodyOf
	client = receivertest.Client
	send   = receivertest.Send
	elapse = receivertest.Elapse
)

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
	return func(h *Hook) { h.Events = NewEventSet(names) }
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

// unlimited returns the default limits without budgets, for tests of something else.
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
	return receivertest.Serve(t, s), s
}

// first returns the route of the Receiver with the highest priority on a path, nil for none.
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
