package app

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event"
	"notifier/internal/receiver"
	"notifier/internal/receiver/events"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/verify"
)

// Fails when a flag's default differs from the package's documented one, or when a flag sets another limit than its own.
func TestTheFlagsOfTheWebhookEndpointReachTheirLimits(t *testing.T) {
	if diff := cmp.Diff(receiver.DefaultLimits(), DefaultOptions().limits()); diff != "" {
		t.Errorf("without flags (-want +got):\n%s", diff)
	}
	o := DefaultOptions()
	o.ClientFailureRate, o.PathFailureRate, o.NamespaceRate = 0.01, 2, 30
	o.ReceiverRate, o.ReceiverBurst, o.MaxInFlight, o.MaxBodiesInFlight = 4, 5, 160, 6<<20
	want := receiver.Limits{
		Unknown:  limit.Budget{Rate: 0.01, Burst: 1},
		Failure:  limit.Budget{Rate: 2, Burst: 20},
		Tenant:   limit.Budget{Rate: 30, Burst: 150},
		Receiver: limit.Budget{Rate: 4, Burst: 5},
		Requests: receiver.Caps{Path: 10, Namespace: 40, Total: 160, Reserve: 8},
		Bodies:   receiver.Caps{Path: 3 << 20, Namespace: 3 << 20, Total: 6 << 20, Reserve: 128 << 10},
		Triggers: receiver.DefaultLimits().Triggers,
		Wait:     receiver.DefaultLimits().Wait,
	}
	if diff := cmp.Diff(want, o.limits()); diff != "" {
		t.Errorf("with flags (-want +got):\n%s", diff)
	}
}

// Fails when settings that Validate accepts are refused as limits: the process would not start and name no flag.
func TestEveryValidOptionIsAValidLimit(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"all off": func(o *Options) {
			o.ClientFailureRate, o.PathFailureRate, o.NamespaceRate, o.ReceiverRate = 0, 0, 0, 0
			o.MaxInFlight, o.MaxBodiesInFlight = 0, 0
		},
		"the least":    func(o *Options) { o.MaxInFlight, o.MaxBodiesInFlight, o.NamespaceRate = 1, limit.MaxBody, 1e-9 },
		"the greatest": func(o *Options) { o.NamespaceRate, o.MaxInFlight = math.MaxFloat64, math.MaxInt64 },
	} {
		o := DefaultOptions()
		change(&o)
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := receiver.NewTable(o.limits(), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Fails when a network is accepted that would let clients choose their address, or that contains no address.
func TestProxiesAreNetworks(t *testing.T) {
	for cidr, ok := range map[string]bool{
		"10.0.0.0/8": true, "10.1.2.3/8": true, "192.0.2.1/32": true, "2001:db8::/32": true,
		"192.0.2.1": false, "0.0.0.0/0": false, "::/0": false, "::ffff:10.0.0.0/104": false, "ingress": false, "": false,
	} {
		if _, err := parseProxies([]string{cidr}); (err == nil) != ok {
			t.Errorf("%q: %v", cidr, err)
		}
	}
}

// nothing is a bus that accepts everything, and an empty cache.
type nothing struct{}

func (nothing) PublishTriggers(context.Context, ...event.Trigger) error   { return nil }
func (nothing) PublishEvent(context.Context, *event.Record) (bool, error) { return false, nil }
func (nothing) LastEvent(context.Context, string, string, string) (*event.Record, bool, error) {
	return nil, false, nil
}
func (nothing) Pending(string) bool                                { return false }
func (nothing) Lookup(string, string, string) (event.Object, bool) { return event.Object{}, false }

// Fails when one listener answers another's requests, such as metrics or events on the public port.
func TestEachListenerAnswersItsOwnRequestsAlone(t *testing.T) {
	registry := prometheus.NewRegistry()
	table, err := receiver.NewTable(receiver.DefaultLimits(), nil)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := verify.New("generic", verify.Credentials{Token: []byte("token")})
	if err != nil {
		t.Fatal(err)
	}
	hook := &receiver.Hook{
		Namespace: "team-a", Name: "hook", UID: "uid", Path: receiver.Path("token", "hook", "team-a"), Verifier: verifier,
	}
	if err := table.Put("team-a/hook", hook); err != nil {
		t.Fatal(err)
	}
	table.Complete()
	webhooks, err := receiver.NewWebhooks(receiver.WebhooksOptions{Table: table, Triggers: nothing{}, Log: discard, Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	eventOptions := events.DefaultOptions()
	eventOptions.Events, eventOptions.Objects, eventOptions.Log, eventOptions.Registerer = nothing{}, nothing{}, discard, registry
	events, err := events.New(eventOptions)
	if err != nil {
		t.Fatal(err)
	}
	const posted = `{"involvedObject":{"apiVersion":"kustomize.toolkit.fluxcd.io/v1","kind":"Kustomization","name":"app","namespace":"team-a",` +
		`"uid":"1"},"severity":"info","timestamp":"2026-01-01T00:00:00Z","message":"m","reason":"r","reportingController":"c"}`
	o := DefaultOptions()
	if slices.ContainsFunc(listeners(o, webhooks, events, registry, &health{}), func(l listener) bool { return l.name == "pprof" }) {
		t.Error("profiles are served without their flag")
	}
	o.PprofAddr = "localhost:6060"
	for _, request := range []struct{ owner, method, path, body string }{
		{"webhooks", http.MethodPost, hook.Path, "{}"},
		{"events", http.MethodPost, "/", posted},
		{"metrics", http.MethodGet, "/metrics", ""},
		{"health", http.MethodGet, "/healthz", ""},
		{"health", http.MethodGet, "/readyz", ""},
		{"pprof", http.MethodGet, "/debug/pprof/heap", ""},
		{"nobody", http.MethodGet, "/debug/pprof/cmdline", ""},
	} {
		for _, d := range listeners(o, webhooks, events, registry, &health{}) {
			w := httptest.NewRecorder()
			d.handler.ServeHTTP(w, httptest.NewRequest(request.method, request.path, strings.NewReader(request.body)))
			resp := w.Result()
			if own := d.name == request.owner; own != (resp.StatusCode/100 == 2) {
				t.Errorf("%s %s at the listener for %s: %d", request.method, request.path, d.name, resp.StatusCode)
			}
			if body, _ := io.ReadAll(resp.Body); d.name == "webhooks" && d.name != request.owner && len(body) > 0 {
				t.Errorf("%s %s: the public listener says %q", request.method, request.path, body)
			}
		}
	}
}
