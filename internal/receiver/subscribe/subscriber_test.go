package subscribe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/event"
	"notifier/internal/receiver"
	"notifier/internal/receiver/receivertest"
)

// stage is a Subscriber between a feed and a bus of the test's own.
type stage struct {
	*followed
	t        *testing.T
	table    *Subscriptions
	bus      *receivertest.Recorder
	registry *prometheus.Registry
	batches  chan told
	skips    int
	seq      uint64
	over     atomic.Bool // the term is, and the process has not noticed

	mu        sync.Mutex
	fail      error  // of every publish and report
	refuse    error  // of every report
	lost      error  // of every publish
	overQuota string // the namespace that has too many triggers
}

// told is a batch that is being handled, and its end.
type told struct {
	batch []*event.Record
	done  chan error
}

func newStage(t *testing.T, subscriptions ...*Subscription) *stage {
	s := &stage{
		t: t, table: NewSubscriptions(), bus: &receivertest.Recorder{}, batches: make(chan told), followed: newFollowed(),
	}
	for _, sub := range subscriptions {
		if err := s.table.Put(sub); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *stage) options() Options {
	s.registry = prometheus.NewRegistry()
	return Options{
		Events: s, Triggers: receivertest.TriggersFunc(s.publish), Subscriptions: s.table, Reports: s, Gate: make(chan struct{}),
		Log: slog.New(slog.DiscardHandler), Registerer: s.registry,
	}
}

// run runs a Subscriber until the returned function is called.
func (s *stage) run() (stop func()) {
	s.t.Helper()
	gate := make(chan struct{})
	close(gate)
	options := s.options()
	options.Gate = gate
	subscriber, err := New(options)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := subscriber.Run(ctx); err != nil {
			s.t.Errorf("Run: %v", err)
		}
	}()
	synctest.Wait()
	return func() { cancel(); <-done }
}

func (s *stage) Subscribe(ctx context.Context, serve func(context.Context, event.Reader) error) error {
	return serve(event.WithFence(ctx, func() bool { return !s.over.Load() }), s)
}

func (s *stage) Read(ctx context.Context, handle func(context.Context, []*event.Record) error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case b := <-s.batches:
			b.done <- handle(ctx, b.batch)
		}
	}
}

func (s *stage) Skip(_ context.Context, idle func() bool) error {
	if idle() {
		s.skips++
	}
	return nil
}

func (s *stage) publish(ctx context.Context, t event.Trigger) error {
	if err := s.failure(); err != nil {
		return err
	}
	if err := s.losing(); err != nil {
		return err
	}
	if s.isOverQuota(t.Namespace) {
		return fmt.Errorf("bus: %w", event.ErrTooManyTriggers)
	}
	return s.bus.PublishTriggers(ctx, t)
}

func (s *stage) Put(_ context.Context, key string, value []byte) error {
	if err := s.failure(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return s.refuse
	}
	s.store(key, value)
	return nil
}

func (s *stage) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail
}

// looping reports whether a Receiver's status would report a loop.
func (s *stage) looping(key string) bool {
	value, _ := s.get(LoopPrefix + key)
	return strings.Contains(value, `"looping":true`)
}

// tell passes records to the subscriber as one batch, numbered as the stream does.
func (s *stage) tell(records ...*event.Record) error {
	for _, r := range records {
		s.seq++
		r.Seq = s.seq
	}
	return s.again(records...)
}

func (s *stage) again(records ...*event.Record) error {
	b := told{records, make(chan error)}
	s.batches <- b
	return <-b.done
}

// must sends an event about an object and returns the number of triggers that it published.
func (s *stage) must(object string) int {
	s.t.Helper()
	before := s.bus.Count()
	if err := s.tell(about(object)); err != nil {
		s.t.Fatal(err)
	}
	return s.bus.Count() - before
}

// wait lets time pass and returns the number of triggers published meanwhile.
func (s *stage) wait(d time.Duration) int {
	before := s.bus.Count()
	elapse(d)
	synctest.Wait()
	return s.bus.Count() - before
}

// about returns an event about "kind/name" in the namespace team that is known to the watchers.
func about(object string) *event.Record {
	kind, name, _ := strings.Cut(object, "/")
	return &event.Record{
		ID: object, Known: true, Labels: map[string]string{"app": name},
		Event: event.Event{
			InvolvedObject: event.ObjectReference{Kind: kind, Namespace: "team", Name: name, UID: "uid"}, Reason: "Succeeded",
			Severity: event.SeverityInfo,
		},
	}
}

// subscription returns that of the Receiver "namespace/name", which has one target and subscribes to all ImagePolicies.
func subscription(key string) *Subscription {
	namespace, name, _ := strings.Cut(key, "/")
	return &Subscription{
		Namespace: namespace, Name: name, UID: "uid-" + name, Generation: 1,
		Sources: []EventSource{{Kind: "ImagePolicy", Name: "*"}},
		Targets: []event.Trigger{{
			Namespace: namespace, Receiver: name, ReceiverUID: "uid-" + name, Key: "key-" + name,
			Target: event.Target{APIVersion: "image.toolkit.fluxcd.io/v1", Kind: "ImageUpdateAutomation", Name: "app"},
		}},
	}
}

// Fails when selects ignores kind, name or labels, when reasons are compared with their case, or when a suspended subscription matches.
func TestAnEventTriggersTheReceiversThatSubscribeToIt(t *testing.T) {
	for name, tc := range map[string]struct {
		source  EventSource
		reasons []string
		suspend bool
		want    bool
	}{
		"all of the kind":                 {source: EventSource{Kind: "ImagePolicy", Name: "*"}, want: true},
		"the object itself":               {source: EventSource{Kind: "ImagePolicy", Name: "app"}, want: true},
		"another object":                  {source: EventSource{Kind: "ImagePolicy", Name: "other"}},
		"another kind":                    {source: EventSource{Kind: "Kustomization", Name: "app"}},
		"its labels":                      {source: EventSource{Kind: "ImagePolicy", Name: "*", MatchLabels: map[string]string{"app": "app"}}, want: true},
		"no labels asked":                 {source: EventSource{Kind: "ImagePolicy", Name: "*", MatchLabels: map[string]string{}}, want: true},
		"another value of a label":        {source: EventSource{Kind: "ImagePolicy", Name: "*", MatchLabels: map[string]string{"app": "x"}}},
		"a label that it does not have":   {source: EventSource{Kind: "ImagePolicy", Name: "app", MatchLabels: map[string]string{"tier": ""}}},
		"a reason in other letters":       {source: EventSource{Kind: "ImagePolicy", Name: "*"}, reasons: []string{"x", "sUCCEEDED"}, want: true},
		"a reason that is not listed":     {source: EventSource{Kind: "ImagePolicy", Name: "*"}, reasons: []string{"Failed"}},
		"a Receiver that was suspended":   {source: EventSource{Kind: "ImagePolicy", Name: "*"}, suspend: true},
		"a name that only begins with it": {source: EventSource{Kind: "ImagePolicy", Name: "ap"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sub := subscription("team/r")
				sub.Sources = []EventSource{{Kind: "Bucket", Name: "x"}, tc.source}
				sub.Reasons, sub.Suspended = receiver.NewEventSet(tc.reasons), tc.suspend
				s := newStage(t, sub)
				defer s.run()()
				if got := s.must("ImagePolicy/app") == 1; got != tc.want {
					t.Errorf("triggered: %v", got)
				}
			})
		})
	}
}

// Invariant E1: the event of one namespace triggers, and is compared with, nothing of another's. Fails when wanting looks through all
// namespaces.
func TestAnEventTriggersNothingOfAnotherNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, subscription("team/r"), subscription("other/r"))
		defer s.run()()
		s.must("ImagePolicy/app")
		if len(s.bus.Published) != 1 || s.bus.Published[0].Namespace != "team" {
			t.Errorf("published %+v", s.bus.Published)
		}
	})
}

// Invariant T1: a subscription that reaches into another namespace is not served, nor is its predecessor of the same name. Fails when Put
// does not validate, or leaves the earlier subscription in place.
func TestT1ASubscriptionThatReachesIntoAnotherNamespaceIsNotServed(t *testing.T) {
	table := NewSubscriptions()
	if err := table.Put(subscription("team/r")); err != nil {
		t.Fatal(err)
	}
	foreign := subscription("team/r")
	foreign.Targets = append(foreign.Targets, subscription("other/r").Targets...)
	if err := table.Put(foreign); err == nil {
		t.Error("it is served")
	}
	if !table.empty() {
		t.Error("the earlier one is still served")
	}
}

// Invariant E9: an event that any sender may have sent triggers nothing. Fails when evaluate ignores Known.
func TestE9AnEventOfNoKnownObjectTriggersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, subscription("team/r"))
		defer s.run()()
		forged := about("ImagePolicy/app")
		forged.Known = false
		if err := s.tell(forged); err != nil || s.bus.Count() != 0 {
			t.Errorf("%d triggers, error %v", s.bus.Count(), err)
		}
		s.counts(map[string]float64{eventUnknown: 1})
	})
}

func (s *stage) counts(want map[string]float64) {
	s.t.Helper()
	var text strings.Builder
	text.WriteString("# HELP notifier_event_triggers_total Events that matched a Receiver of type event, by what became of them.\n" +
		"# TYPE notifier_event_triggers_total counter\n")
	for _, result := range []string{eventHeld, eventResumed, eventTriggered, eventUnknown} {
		fmt.Fprintf(&text, "notifier_event_triggers_total{result=%q} %v\n", result, want[result])
	}
	if err := testutil.GatherAndCompare(s.registry, strings.NewReader(text.String()), "notifier_event_triggers_total"); err != nil {
		s.t.Error(err)
	}
}

// Invariant T4: a trigger has the time at which the event was handled; a batch triggers a target once, for any number of its events. Fails
// when trigger does not set Accepted, or does not coalesce by key.
func TestABatchTriggersEachTargetOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, subscription("team/r"), subscription("team/q"))
		defer s.run()()
		s.wait(time.Hour)
		if err := s.tell(about("ImagePolicy/a"), about("ImagePolicy/b"), about("Bucket/c")); err != nil {
			t.Fatal(err)
		}
		keys := map[string]bool{}
		for _, p := range s.bus.Published {
			keys[p.Key] = true
			if !p.Accepted.Equal(time.Now()) {
				t.Errorf("accepted at %s", p.Accepted)
			}
		}
		if len(s.bus.Published) != 2 || len(keys) != 2 {
			t.Errorf("published %+v", s.bus.Published)
		}
		s.counts(map[string]float64{eventTriggered: 4})
	})
}

// Invariant E2: an event is acknowledged when its triggers are on disk, and an event that is handled again is no round of a loop. Fails
// when handle drops the error of a publish, or evaluates an event twice (the eleventh try is then delayed).
func TestAnEventIsHandledAgainUntilItsTriggersAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, subscription("team/r"))
		defer s.run()()
		full := errors.New("full")
		s.failWith(full)
		r := about("ImagePolicy/app")
		if err := s.tell(r); !errors.Is(err, full) {
			t.Errorf("first try: %v", err)
		}
		for range 2 * loopRounds {
			elapse(5 * time.Second)
			if err := s.again(r); !errors.Is(err, full) {
				t.Errorf("another try: %v", err)
			}
		}
		s.failWith(nil)
		if err := s.again(r); err != nil || s.bus.Count() != 1 || s.looping("team/r") {
			t.Errorf("%d triggers, looping %v, error %v", s.bus.Count(), s.looping("team/r"), err)
		}
	})
}

// While there is no Receiver of type event nothing is read, and the first one changes that at once. Fails when idle returns at once, or
// does not notice a Put.
func TestNothingIsReadUntilAReceiverSubscribes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		defer s.run()()
		s.wait(time.Minute)
		select {
		case s.batches <- told{}:
			t.Fatal("events are read")
		default:
		}
		if want := int(time.Minute/idleTick) + 1; s.skips != want {
			t.Errorf("skipped %d times, not %d", s.skips, want)
		}
		if err := s.table.Put(subscription("team/r")); err != nil {
			t.Fatal(err)
		}
		put := time.Now()
		if s.must("ImagePolicy/app") != 1 || time.Since(put) > 0 {
			t.Errorf("the first event did not trigger, or only after %s", time.Since(put))
		}
	})
}

// Fails when a missing option is no error.
func TestASubscriberNeedsItsOptions(t *testing.T) {
	_, err := New(Options{})
	for _, want := range []string{"Events", "Triggers", "Subscriptions", "Reports", "Gate", "Log"} {
		if err == nil || !strings.Contains(err.Error(), want+" is missing") {
			t.Errorf("%v does not mention %q", err, want)
		}
	}
}
