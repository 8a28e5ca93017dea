package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
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
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir,
		JetStreamMaxStore: 16 << 30, JetStreamMaxMemory: 64 << 20,
	})
	must(t, err)
	s.Start()
	if !s.ReadyForConnections(testTimeout) {
		t.Fatal("server does not start")
	}
	return s
}

// fakeBucket stands for the bucket of members where nothing is asked of it.
type fakeBucket struct{ jetstream.KeyValue }

// fleet is a set of replicas that serve deliveries and note who serves which shard.
type fleet struct {
	t   testing.TB
	url string

	mu     sync.Mutex
	owners map[int][]string // the replicas that serve a shard now
	change chan struct{}
	held   chan event.Held[event.Delivery]

	// prepare, if not nil, changes a replica before it runs.
	prepare func(b *Bus)
}

const fleetShards = 8

func newFleet(t testing.TB) *fleet { return fleetOn(t, remote(t)) }

func fleetOn(t testing.TB, url string) *fleet {
	return &fleet{t: t, url: url, owners: map[int][]string{}, change: make(chan struct{}), held: make(chan event.Held[event.Delivery])}
}

// join starts a replica. leave ends it as a shutdown does, kill as a crash does.
func (f *fleet) join(name string) (b *Bus, leave, kill func()) {
	f.t.Helper()
	b = open(f.t, "", func(o *Options) { o.URL, o.ReplicaID, o.Shards = f.url, name, fleetShards })
	if f.prepare != nil {
		f.prepare(b)
	}
	stopRun := start(f.t, func(ctx context.Context) error {
		if err := b.Run(ctx); !errors.Is(err, ErrLost) || !b.closed.Load() {
			return err
		}
		return nil // killed
	})
	stopWork := start(f.t, func(ctx context.Context) error {
		return b.Deliveries(ctx, func(ctx context.Context, shard int, in <-chan event.Held[event.Delivery]) error {
			f.note(func() { f.owners[shard] = append(f.owners[shard], name) })
			defer f.note(func() {
				f.owners[shard] = slices.DeleteFunc(f.owners[shard], func(s string) bool { return s == name })
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

// await waits until each shard has exactly one owner and those are the given replicas. It returns how long that took.
func (f *fleet) await(names ...string) time.Duration {
	f.t.Helper()
	began := time.Now()
	deadline := time.After(testTimeout)
	for {
		f.mu.Lock()
		seen := map[string]bool{}
		settled := true
		for shard := range fleetShards {
			settled = settled && len(f.owners[shard]) == 1
			for _, name := range f.owners[shard] {
				seen[name] = true
			}
		}
		for _, name := range names {
			settled = settled && seen[name]
		}
		change := f.change
		text := fmt.Sprint(f.owners)
		f.mu.Unlock()
		if settled && len(seen) == len(names) {
			return time.Since(began)
		}
		select {
		case <-change:
		case <-deadline:
			f.t.Fatalf("owners are %s, want %v", text, names)
		}
	}
}

// One owner a shard in the whole fleet, and it changes hands when replicas come and go.
// Fails when takeOver takes a lease whose holder is alive (two owners), or when release keeps it (nobody takes over).
func TestShardsAreSpreadOverTheReplicasAndChangeHands(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one, leaveOne, _ := f.join("one")
	f.await("one")
	two, _, killTwo := f.join("two")
	f.await("one", "two")
	ctx := testContext(t)
	for i := range 40 {
		must(t, publishDeliveries(ctx, one, []event.Delivery{testDelivery(fmt.Sprint(i), "team", fmt.Sprint("p", i%16))}))
	}
	seen := map[string]bool{}
	for len(seen) < 40 {
		h := receive(t, f.held)
		if seen[h.Value.ID] {
			t.Errorf("%s was handed out twice", h.Value.ID)
		}
		seen[h.Value.ID] = true
		must(t, h.Done(ctx))
	}
	must(t, one.Ready())
	must(t, two.Ready())

	leaveOne()
	took := f.await("two")
	t.Logf("takeover after a graceful leave: %s", took)
	if took > 3*time.Second {
		t.Error("the takeover took too long")
	}
	three, _, _ := f.join("three")
	f.await("two", "three")

	// Two dies with messages in hand, and three gets them.
	for i := range 40 {
		must(t, publishDeliveries(ctx, three, []event.Delivery{testDelivery(fmt.Sprint("more", i), "team", fmt.Sprint("p", i%16))}))
	}
	first := receive(t, f.held)
	killTwo()
	took = f.await("three")
	t.Logf("takeover after a kill: %s", took)
	if took > 10*time.Second {
		t.Error("the takeover took too long")
	}
	seen = map[string]bool{}
	_ = first.Done(ctx) // its owner may be gone
	for len(seen) < 39 {
		h := receive(t, f.held)
		if h.Done(ctx) == nil && h.Value.ID != first.Value.ID {
			seen[h.Value.ID] = true
		}
	}
}

// Fails when a replica that hears of nobody, itself included, keeps its roles.
func TestAReplicaThatIsCutOffGivesUpBeforeTheOthersTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMembership("one", nil)
		m.kv = fakeBucket{}
		m.offer(kindDeliver)
		m.members["one"] = member{kinds: []string{kindDeliver}, seen: time.Now()}
		m.members["two"] = member{kinds: []string{kindDeliver}, seen: time.Now()}
		mine := ""
		for i := range 100 {
			if owner, _ := m.owner(kindDeliver, fmt.Sprint(i)); owner == "one" {
				mine = fmt.Sprint(i)
			}
		}
		<-time.After(selfTTL) // virtual
		if owner, _ := m.owner(kindDeliver, mine); owner == "one" {
			t.Error("still owner although its own heartbeats do not come back")
		}
		if !m.alive("two") {
			t.Error("the other is dead before its time")
		}
		<-time.After(memberTTL - selfTTL)
		if owner, _ := m.owner(kindDeliver, mine); owner != "" || m.alive("two") {
			t.Errorf("owner %q, the other alive: %v", owner, m.alive("two"))
		}
	})
}

func TestWhenAMemberLeavesOnlyItsOwnRolesMove(t *testing.T) {
	m := newMembership("a", nil)
	m.kv = fakeBucket{}
	for _, name := range []string{"a", "b", "c", "d"} {
		m.members[name] = member{kinds: []string{kindDeliver}, seen: time.Now()}
	}
	m.offer(kindDeliver)
	before, counts := map[string]string{}, map[string]int{}
	for i := range 400 {
		role := fmt.Sprint(kindDeliver, ".", i)
		before[role], _ = m.owner(kindDeliver, role)
		counts[before[role]]++
	}
	for name, n := range counts {
		if n < 60 || n > 140 {
			t.Errorf("%s has %d of 400 roles", name, n)
		}
	}
	delete(m.members, "c")
	for role, owner := range before {
		if now, _ := m.owner(kindDeliver, role); owner != "c" && now != owner {
			t.Errorf("%s moved from %s to %s", role, owner, now)
		}
	}
	if owner, _ := m.owner(kindRoute, kindRoute); owner != "" {
		t.Errorf("%s owns a role whose kind nobody serves", owner)
	}
}

// A shard that moves is not served by its new owner before the old one has drained it.
// Fails when takeOver takes a lease whose holder is alive.
func TestANewOwnerWaitsUntilTheOldOneHasDrained(t *testing.T) {
	t.Parallel()
	url := remote(t)
	connect := func(name string) *Bus {
		b := open(t, "", func(o *Options) { o.URL, o.ReplicaID, o.Shards = url, name, 1 })
		start(t, b.Run)
		return b
	}
	one, two := connect("one"), connect("two")
	began, ending, drained := make(chan string, 2), make(chan struct{}), make(chan struct{})
	leave := make(chan struct{})
	ctx, cancel := context.WithCancel(testContext(t))
	go func() {
		defer close(leave)
		_ = one.Deliveries(ctx, func(ctx context.Context, _ int, _ <-chan event.Held[event.Delivery]) error {
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
		return two.Deliveries(ctx, func(ctx context.Context, _ int, _ <-chan event.Held[event.Delivery]) error {
			began <- "two"
			<-ctx.Done()
			return nil
		})
	})
	cancel()
	receive(t, ending)
	for owner := ""; owner != "two"; { // it should be the owner from now on, and tries to
		var changed <-chan struct{}
		if owner, changed = two.members.owner(kindDeliver, deliverRole(0).name); owner != "two" {
			receive(t, changed)
		}
	}
	if tenure, err := two.takeOver(testContext(t), deliverRole(0)); tenure != nil || err != nil {
		t.Errorf("two takes over what one has not drained: %v, %v", tenure, err)
	}
	select {
	case <-began:
		t.Error("two serves what one has not drained")
	default:
	}
	close(drained)
	receive(t, leave)
	if name := receive(t, began); name != "two" {
		t.Error(name)
	}
}

// A stale owner that goes on asking gets nothing once another has taken over.
// Fails when requests carry no pin, or startOver does not unpin.
func TestAnOwnerThatMissedItsEndIsFencedOut(t *testing.T) {
	url := remote(t)
	// Without Run neither hears of the other, as if the network between them had failed.
	connect := func(name string) *Bus {
		return open(t, "", func(o *Options) { o.URL, o.ReplicaID, o.Shards = url, name, 1 })
	}
	one, two := connect("one"), connect("two")
	ctx := testContext(t)
	serve := func(b *Bus) (<-chan event.Held[event.Delivery], <-chan error) {
		held, ended := make(chan event.Held[event.Delivery]), make(chan error, 1)
		tenure, err := b.takeOver(ctx, deliverRole(0))
		must(t, err)
		inner, cancel := context.WithCancel(ctx)
		joined := make(chan struct{})
		go func() {
			defer close(joined)
			ended <- consume(inner, tenure, func(m *nats.Msg, _ uint64, _ bool) (event.Delivery, error) { return decodeDelivery(m) },
				func(ctx context.Context, _ int, in <-chan event.Held[event.Delivery]) error {
					return forward(ctx, in, held)
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
		t.Errorf("the new owner got %s first", h.Value.ID)
	}
	if err := receive(t, endedOne); !errors.Is(err, errFenced) {
		t.Errorf("the stale owner ended with %v", err)
	}
	must(t, publishDeliveries(ctx, two, []event.Delivery{testDelivery("2", "team", "slack")}))
	if h := receive(t, heldTwo); h.Value.ID != "2" {
		t.Errorf("the new owner got %s next", h.Value.ID)
	}
	must(t, stale.Done(ctx)) // it was done, whoever did it
}
