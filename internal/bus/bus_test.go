package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"notifier/internal/event"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDirEnv); dir != "" {
		os.Exit(child(dir))
	}
	if url := os.Getenv(replicaEnv); url != "" {
		os.Exit(replica(url))
	}
	if config := os.Getenv(nodeEnv); config != "" {
		var n node
		if err := json.Unmarshal([]byte(config), &n); err != nil {
			panic(err)
		}
		os.Exit(n.run())
	}
	goleak.VerifyTestMain(m)
}

const testTimeout = 30 * time.Second

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// open opens a bus for a test. change, if not nil, changes its options.
func open(t testing.TB, dir string, change func(*Options)) *Bus {
	t.Helper()
	b, err := Open(testContext(t), testOptions(dir, change))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { closeBus(t, b) })
	return b
}

func testOptions(dir string, change func(*Options)) Options {
	o := Options{
		DataDir: dir, Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), Shards: 2,
	}
	if os.Getenv("BUS_TEST_LOG") != "" {
		o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if change != nil {
		change(&o)
	}
	return o
}

func closeBus(t testing.TB, b *Bus) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// following returns FollowEvents for start.
func following(b *Bus, from time.Time, h func(*event.Record), caughtUp func()) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		b.FollowEvents(ctx, from, h, caughtUp)
		return nil
	}
}

// start runs f until the returned function is called, which also waits for it.
func start(t testing.TB, f func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("stopped with %v", err)
			}
		case <-time.After(testTimeout):
			t.Error("did not stop")
		}
	}
	t.Cleanup(stop)
	return stop
}

func testEvent(namespace, name, message string) event.Event {
	return event.Event{
		InvolvedObject: event.ObjectReference{
			Kind: "Kustomization", Namespace: namespace, Name: name, UID: "uid-" + name, APIVersion: "kustomize.toolkit.fluxcd.io/v1",
		},
		Severity: event.SeverityInfo, Timestamp: time.Unix(1_700_000_000, 0).UTC(), Message: message, Reason: "ReconciliationSucceeded",
		ReportingController: "kustomize-controller",
	}
}

func testRecord(id, namespace, name string) *event.Record {
	return &event.Record{
		ID: id, Event: testEvent(namespace, name, "message of "+id), Source: event.SourcePost, Outcome: event.OutcomeSucceeded,
		Accepted: time.Unix(1_700_000_001, 5).UTC(),
	}
}

func testTrigger(namespace, key string, accepted int64) event.Trigger {
	return event.Trigger{
		Namespace: namespace, Receiver: "r", ReceiverUID: "u", Key: key,
		Target:   event.Target{APIVersion: "source.toolkit.fluxcd.io/v1", Kind: "GitRepository", Name: "flux"},
		Accepted: time.Unix(accepted, 0).UTC(),
	}
}

func testDelivery(id, namespace, provider string) event.Delivery {
	return event.Delivery{
		ID: id, Order: 7, Namespace: namespace, Alert: "alert", AlertUID: "a", Provider: provider, ProviderUID: "p",
		Event: testEvent(namespace, "app", "message of "+id), Known: true, Routed: time.Unix(1_700_000_002, 0).UTC(),
	}
}

// deliverTo serves deliveries by sending each to the channel.
func deliverTo(b *Bus, to chan<- event.Message[event.Delivery]) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		return b.Deliveries(ctx, func(ctx context.Context, _ int, in <-chan event.Message[event.Delivery]) error {
			return forward(ctx, in, to)
		})
	}
}

func triggerTo(b *Bus, to chan<- event.Message[event.Trigger]) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		return b.Triggers(ctx, func(ctx context.Context, in <-chan event.Message[event.Trigger]) error {
			return forward(ctx, in, to)
		})
	}
}

func forward[T any](ctx context.Context, in <-chan event.Message[T], to chan<- event.Message[T]) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case h, open := <-in:
			if !open {
				return nil
			}
			select {
			case to <- h:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

func receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(testTimeout):
		t.Fatal("nothing received")
		panic("unreachable")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ids(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%04d", i)
	}
	return out
}

// publishDeliveries writes deliveries to DELIVERIES as if they were due on the schedule.
func publishDeliveries(ctx context.Context, b *Bus, ds []event.Delivery) error {
	var msgs []*nats.Msg
	for i := range ds {
		m, err := encodeDelivery(dueSubject(b.DeliveryShard(ds[i].Namespace, ds[i].Provider), &ds[i]), ds[i].ID, &ds[i])
		if err != nil {
			return err
		}
		msgs = append(msgs, m)
	}
	var errs []error
	for _, o := range b.publishAll(ctx, streamDeliveries, msgs) {
		errs = append(errs, o.err)
	}
	return errors.Join(errs...)
}

// pendingOf returns the number of messages of a namespace in DELIVERIES.
func pendingOf(ctx context.Context, b *Bus, namespace string) (int, error) {
	info, err := b.streams[streamDeliveries].Info(ctx, jetstream.WithSubjectFilter("notifier.*.*."+token(namespace)+".>"))
	if err != nil {
		return 0, err
	}
	return len(info.State.Subjects), nil
}

// never is the Full of a handler that takes all records.
func never(string) bool { return false }

// handlerOf returns a handler that calls a function with records and then acknowledges them.
func handlerOf(heavy func(*event.Record) bool, handle func(context.Context, []*event.Record) error) event.Handler {
	return event.Handler{
		Heavy: heavy, Full: never, Begin: func(func(string) bool) {}, CaughtUp: func(context.Context) {}, Spill: func(context.Context, uint64) {},
		Handle: func(ctx context.Context, batch []event.Message[*event.Record]) error {
			var records []*event.Record
			for _, h := range batch {
				records = append(records, h.Value)
			}
			if err := handle(ctx, records); err != nil {
				return err
			}
			for _, h := range batch {
				if err := h.Ack(ctx); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// publishRecords writes records to EVENTS, those of an object in their order, many with one sync, to fill the stream. As a sender would, it
// publishes again what a slow disk did not take in time: the stream recognizes the IDs.
func publishRecords(t testing.TB, b *Bus, records ...*event.Record) {
	t.Helper()
	var msgs []*nats.Msg
	for _, r := range records {
		m, _, err := encodeRecord(r)
		must(t, err)
		msgs = append(msgs, m)
	}
	ctx := testContext(t)
	out := b.publishAll(ctx, streamEvents, msgs)
	for ctx.Err() == nil && slices.ContainsFunc(out, func(o outcome) bool { return errors.Is(o.err, context.DeadlineExceeded) }) {
		out = b.publishAll(ctx, streamEvents, msgs)
	}
	for _, o := range out {
		must(t, o.err)
		b.recent.note(o.ack.Sequence)
	}
}

// light reports that no record is heavy.
func light(*event.Record) bool { return false }
