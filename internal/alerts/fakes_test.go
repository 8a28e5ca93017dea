package alerts

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// sendFunc makes a function a Sender.
type sendFunc func(ctx context.Context, n provider.Notification) error

func (f sendFunc) Send(ctx context.Context, n provider.Notification) error { return f(ctx, n) }

// sink is a destination that accepts everything and remembers it.
type sink struct {
	mu   sync.Mutex
	got  []provider.Notification
	when []time.Time
}

func (s *sink) Send(_ context.Context, n provider.Notification) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got, s.when = append(s.got, n), append(s.when, time.Now())
	return nil
}

func (s *sink) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, len(s.got))
	for i := range s.got {
		ids[i] = s.got[i].DeliveryID
	}
	return ids
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

// notes collects the reports of a ledger, and Kubernetes Events.
type notes struct {
	ledger *Ledger

	mu     sync.Mutex
	told   map[string][]Standing
	all    int
	events []string
	// brief says that only the last report about each object is kept.
	brief bool
}

func newNotes(alerts *Table, destinations *Destinations) *notes {
	return &notes{ledger: NewLedger(alerts, destinations), told: map[string][]Standing{}}
}

// follow collects the ledger's reports until ctx ends.
func (n *notes) follow(ctx context.Context) {
	n.ledger.Follow(ctx, func(kind, namespace, name string) {
		s := n.ledger.Get(kind, namespace, name)
		n.mu.Lock()
		defer n.mu.Unlock()
		key := kind + "/" + namespace + "/" + name
		if n.brief {
			n.told[key] = n.told[key][:0]
		}
		n.told[key] = append(n.told[key], s)
	}, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.all++
	})
}

func (n *notes) Event(kind, namespace, name, _, _, reason, message string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, fmt.Sprintf("%s/%s/%s %s %s", kind, namespace, name, reason, message))
}

// standings returns the reports about an object under "kind/namespace/name".
func (n *notes) standings(key string) []Standing {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.told[key])
}

func (n *notes) recorded() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.events)
}

// world is a Deliverer's surroundings.
type world struct {
	t            *testing.T
	bus          *fakeBus
	alerts       *Table
	destinations *Destinations
	notes        *notes
	registry     *prometheus.Registry // of the last run
	order        uint64
	quota        int
	maxAge       time.Duration
	types        []string // the Provider types that metrics distinguish
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, bus: newFakeBus(), alerts: NewTable(), destinations: NewDestinations(), quota: 10_000,
		types: []string{"generic", "slack"},
	}
	w.notes = newNotes(w.alerts, w.destinations)
	w.alert("team-a", "alert", "uid-1", "chat")
	return w
}

func (w *world) alert(namespace, name, uid, providerName string) {
	w.t.Helper()
	a, err := Compile(AlertSpec{
		Namespace: namespace, Name: name, UID: uid, Provider: providerName,
		Sources: []Source{{Kind: "Kustomization", Name: "*"}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.alerts.Put(a)
}

func (w *world) destination(name string, s Sender) {
	w.destinations.Put("team-a", name, &Destination{UID: "p-" + name, Type: "generic", Sender: s})
}

// delivery makes the next delivery of an object to a Provider of team-a.
func (w *world) delivery(providerName, object string) event.Delivery {
	w.order++
	return event.Delivery{
		ID: fmt.Sprintf("d%d", w.order), Order: w.order, Namespace: "team-a", Alert: "alert", AlertUID: "uid-1",
		Provider: providerName, ProviderUID: "p-" + providerName, Routed: time.Now(), Known: true,
		Event: event.Event{InvolvedObject: event.ObjectReference{
			Kind: "Kustomization", Namespace: "team-a", Name: object, APIVersion: "kustomize.toolkit.fluxcd.io/v1",
		}, Severity: "info", Message: "m"},
	}
}

// unbound makes the next delivery of an object to a Provider that did not exist when it was routed.
func (w *world) unbound(providerName, object string) event.Delivery {
	d := w.delivery(providerName, object)
	d.ProviderUID = ""
	return d
}

// drainTimeout is how long sends may take when a shard is given up.
const drainTimeout = 5 * time.Second

// open is a gate that is closed from the beginning.
var open = func() <-chan struct{} {
	gate := make(chan struct{})
	close(gate)
	return gate
}()

// deliverer makes a Deliverer over a session.
func (w *world) deliverer(s *fakeSession) *Deliverer {
	w.t.Helper()
	w.registry = prometheus.NewRegistry()
	d, err := NewDeliverer(DelivererOptions{
		Bus: s, ReplayWindow: DefaultReplayWindow, Alerts: w.alerts, Destinations: w.destinations,
		Reports: w.notes.ledger, Quota: w.quota, MaxAge: cmp.Or(w.maxAge, DefaultMaxAge), Recorder: w.notes, Types: w.types,
		Gate: open, DrainTimeout: drainTimeout, Log: slog.New(slog.DiscardHandler), Registerer: w.registry,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	s.dispatcher = d
	return d
}

// run starts a Deliverer and returns its session and a function that stops it and waits.
func (w *world) run() (s *fakeSession, stop func()) {
	w.t.Helper()
	s = w.bus.session()
	d := w.deliverer(s)
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go w.notes.follow(ctx)
	go func() { done <- d.Run(ctx) }()
	return s, func() {
		w.t.Helper()
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v", err)
		}
	}
}

// pass waits on the bubble's clock. A receive from a timer that is due already may crash the race detector (golang/go#78156).
func pass(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// wait sleeps for d, and then until the bubble is idle.
func wait(d time.Duration) {
	pass(d)
	synctest.Wait()
}

// ticking is a clock that advances at every look.
type ticking struct {
	now  time.Time
	step time.Duration
}

func (c *ticking) look() time.Time {
	c.now = c.now.Add(c.step)
	return c.now
}
