package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"notifier/internal/event"
	"notifier/internal/fair"
)

// remote starts a server that listens on the loopback interface, as one of a platform would.
func remote(t testing.TB) string {
	t.Helper()
	s := startServer(t, t.TempDir(), server.RANDOM_PORT)
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s.ClientURL()
}

func startServer(t testing.TB, dir string, port int) *server.Server {
	t.Helper()
	return startServerFor(t, dir, port, "")
}

// startServerFor starts a server that, unless password is empty, refuses every user but "notifier" with that password.
func startServerFor(t testing.TB, dir string, port int, password string) *server.Server {
	t.Helper()
	return startServerWith(t, dir, port, func(o *server.Options) {
		if password != "" {
			o.Username, o.Password = "notifier", password
		}
	})
}

// startServerWith starts a server after a change of its options.
func startServerWith(t testing.TB, dir string, port int, change func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{
		Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir,
		JetStreamMaxStore: 16 << 30, JetStreamMaxMemory: 64 << 20,
	}
	change(o)
	s, err := server.NewServer(o)
	must(t, err)
	s.Start()
	if !s.ReadyForConnections(testTimeout) {
		t.Fatal("server does not start")
	}
	return s
}

// fleet is a set of replicas that serve deliveries and record which of them serves which shard.
type fleet struct {
	t   testing.TB
	url string

	mu      sync.Mutex
	serving map[int][]string // the replicas that serve a shard now
	change  chan struct{}
	held    chan event.Message[event.Delivery]
}

const (
	fleetShards = 8
	// leaseWait is how long a replica waits for a lease that is not renewed (see package lease).
	leaseWait = 3 * time.Second
)

func newFleet(t testing.TB) *fleet { return fleetOn(t, remote(t)) }

func fleetOn(t testing.TB, url string) *fleet {
	return &fleet{t: t, url: url, serving: map[int][]string{}, change: make(chan struct{}), held: make(chan event.Message[event.Delivery])}
}

// join starts a replica. leave ends it as a shutdown does, kill as a crash does.
func (f *fleet) join(name string) (b *Bus, leave, kill func()) {
	f.t.Helper()
	b = open(f.t, "", func(o *Options) { o.URL, o.ReplicaID, o.Shards = f.url, name, fleetShards })
	stopRun := start(f.t, func(ctx context.Context) error {
		if err := b.Run(ctx); !errors.Is(err, ErrLost) || !b.closed.Load() {
			return err
		}
		return nil // killed
	})
	stopWork := start(f.t, func(ctx context.Context) error {
		return b.Deliveries(ctx, func(ctx context.Context, shard int, in <-chan event.Message[event.Delivery]) error {
			f.note(func() { f.serving[shard] = append(f.serving[shard], name) })
			defer f.note(func() {
				f.serving[shard] = slices.DeleteFunc(f.serving[shard], func(s string) bool { return s == name })
			})
			return forward(ctx, in, f.held)
		})
	})
	leave = func() { stopWork(); stopRun() }
	kill = func() {
		b.closed.Store(true)
		b.nc.Close()
		stopWork()
		stopRun()
	}
	return b, leave, kill
}

func (f *fleet) note(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.change)
	f.change = make(chan struct{})
}

// await waits until each shard is served by exactly the given replica. It returns how long that took.
func (f *fleet) await(name string) time.Duration {
	f.t.Helper()
	began := time.Now()
	deadline := time.After(testTimeout)
	for {
		f.mu.Lock()
		settled := true
		for shard := range fleetShards {
			settled = settled && slices.Equal(f.serving[shard], []string{name})
		}
		change := f.change
		text := fmt.Sprint(f.serving)
		f.mu.Unlock()
		if settled {
			return time.Since(began)
		}
		select {
		case <-change:
		case <-deadline:
			f.t.Fatalf("shards are served by %s, want %s", text, name)
		}
	}
}

// One replica serves all shards, and another does when the first has left or was killed. Fails when a renewed lease is taken (two workers),
// or when a replica that leaves keeps it (the next waits for leaseWait).
func TestOneReplicaIsTheWorkerAndTheNextTakesOver(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one, leaveOne, _ := f.join("one")
	f.await("one")
	two, _, killTwo := f.join("two")
	ctx := testContext(t)
	for i := range 40 {
		must(t, publishDeliveries(ctx, two, []event.Delivery{testDelivery(fmt.Sprint(i), "team", fmt.Sprint("p", i%16))}))
	}
	seen := map[string]bool{}
	for len(seen) < 40 {
		h := receive(t, f.held)
		if seen[h.Value.ID] {
			t.Errorf("%s was handed out twice", h.Value.ID)
		}
		seen[h.Value.ID] = true
		must(t, h.Ack(ctx))
	}
	f.await("one")
	for b, worker := range map[*Bus]bool{one: true, two: false} {
		must(t, b.Ready())
		b.progress.mu.Lock()
		served := len(b.progress.gauges)
		b.progress.mu.Unlock()
		if b.lease.Held() != worker || served > 0 != worker {
			t.Errorf("replica %s: worker %t, %d roles", b.Replica(), b.lease.Held(), served)
		}
	}

	leaveOne()
	left, err := two.buckets[bucketWorker].Get(ctx, "lease")
	must(t, err)
	if strings.Contains(string(left.Value()), `"`+one.Replica()+`"`) { // no other can have taken it by now: that takes leaseWait
		t.Error("a replica that left keeps the lease")
	}
	began := time.Now()
	for !two.lease.Held() {
		must(t, fair.Sleep(ctx, 25*time.Millisecond))
	}
	if time.Since(began) > leaseWait/2 { // test/chaos measures the promised second, on an idle machine
		t.Error("the takeover took as long as if the lease had not been released")
	}
	f.await("two")
	drained := time.Since(began)
	t.Logf("takeover after a drain: %s", drained)
	three, _, _ := f.join("three")

	// Two dies with messages in hand, and three gets them.
	for i := range 40 {
		must(t, publishDeliveries(ctx, three, []event.Delivery{testDelivery(fmt.Sprint("more", i), "team", fmt.Sprint("p", i%16))}))
	}
	first := receive(t, f.held)
	killTwo()
	took := f.await("three")
	t.Logf("takeover after a kill: %s", took)
	if took > 5*time.Second+drained { // the same work took that long here; test/chaos measures the promised five, on an idle machine
		t.Error("the takeover took too long")
	}
	seen = map[string]bool{}
	_ = first.Ack(ctx)   // its replica may be gone
	ctx = testContext(t) // a busy machine may have used up the first one
	for len(seen) < 39 {
		must(t, ctx.Err())
		h := receive(t, f.held)
		if h.Ack(ctx) == nil && h.Value.ID != first.Value.ID {
			seen[h.Value.ID] = true
		}
	}
}

// The next worker does not begin before the last one has drained, however long that takes. Fails when the lease is not renewed while a call
// whose context has ended still runs.
func TestTheNextWorkerWaitsUntilTheLastHasDrained(t *testing.T) {
	t.Parallel()
	url := remote(t)
	connect := func(name string) *Bus {
		return open(t, "", func(o *Options) { o.URL, o.ReplicaID, o.Shards = url, name, 1 })
	}
	one, two := connect("one"), connect("two")
	began, ending, drained := make(chan string, 2), make(chan struct{}), make(chan struct{})
	leave := make(chan struct{})
	ctx, cancel := context.WithCancel(testContext(t))
	go func() {
		defer close(leave)
		_ = one.Deliveries(ctx, func(ctx context.Context, _ int, _ <-chan event.Message[event.Delivery]) error {
			began <- "one"
			<-ctx.Done()
			close(ending)
			<-drained
			return nil
		})
	}()
	if name := receive(t, began); name != "one" {
		t.Fatal(name)
	}
	start(t, func(ctx context.Context) error {
		return two.Deliveries(ctx, func(ctx context.Context, _ int, _ <-chan event.Message[event.Delivery]) error {
			began <- "two"
			<-ctx.Done()
			return nil
		})
	})
	cancel()
	receive(t, ending)
	select {
	case <-began:
		t.Error("two serves what one has not drained")
	case <-time.After(leaseWait + time.Second): // longer than the others wait for a lease that is not renewed
	}
	close(drained)
	receive(t, leave)
	if name := receive(t, began); name != "two" {
		t.Error(name)
	}
}

// A stale worker that continues to ask gets no message once another has taken over. Fails when requests carry no pin, or takeOver does not
// unpin.
func TestAWorkerThatMissedItsEndIsFencedOut(t *testing.T) {
	url := remote(t)
	connect := func(name string) *Bus {
		return open(t, "", func(o *Options) { o.URL, o.ReplicaID, o.Shards = url, name, 1 })
	}
	one, two := connect("one"), connect("two")
	ctx := testContext(t) // without a fence: each believes that its term lasts
	serve := func(b *Bus) (<-chan event.Message[event.Delivery], <-chan error) {
		held, ended := make(chan event.Message[event.Delivery]), make(chan error, 1)
		c, err := b.takeOver(ctx, deliverRole(0))
		must(t, err)
		c.gauge = b.progress.start(deliverRole(0))
		inner, cancel := context.WithCancel(ctx)
		joined := make(chan struct{})
		go func() {
			defer close(joined)
			ended <- consume(inner, c, stage[event.Delivery]{
				decode: decodeDelivery,
				serve: func(ctx context.Context, _ int, in <-chan event.Message[event.Delivery]) error {
					return forward(ctx, in, held)
				},
			})
		}()
		t.Cleanup(func() { cancel(); <-joined })
		return held, ended
	}
	heldOne, endedOne := serve(one)
	must(t, publishDeliveries(ctx, one, []event.Delivery{testDelivery("1", "team", "slack")}))
	stale := receive(t, heldOne)
	heldTwo, _ := serve(two)
	if h := receive(t, heldTwo); h.Value.ID != "1" {
		t.Errorf("the new worker got %s first", h.Value.ID)
	}
	if err := receive(t, endedOne); !errors.Is(err, errFenced) {
		t.Errorf("the stale worker ended with %v", err)
	}
	must(t, publishDeliveries(ctx, two, []event.Delivery{testDelivery("2", "team", "slack")}))
	if h := receive(t, heldTwo); h.Value.ID != "2" {
		t.Errorf("the new worker got %s next", h.Value.ID)
	}
	must(t, stale.Ack(ctx)) // it was done, by either of the two
}
