package bus

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event"
)

// replicaEnv makes the test binary a replica that acts for the shards it owns until it is killed: "<URL of NATS>".
const replicaEnv = "NOTIFIER_BUS_REPLICA"

// replica prints a line, "<shard> <nanoseconds>", whenever it would send something now.
func replica(url string) int {
	ctx := context.Background()
	b, err := Open(ctx, Options{
		URL: url, ReplicaID: "paused", Shards: fleetShards, Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() { _ = b.Run(ctx) }()
	_ = b.Deliveries(ctx, func(ctx context.Context, shard int, _ <-chan event.Held[event.Delivery]) error {
		for ctx.Err() == nil {
			now := time.Now()
			if event.Owned(ctx) {
				fmt.Fprintln(os.Stdout, shard, now.UnixNano())
			}
			_ = wait(ctx, 2*time.Millisecond)
		}
		return nil
	})
	return 0
}

// E3, T4: a process that was stopped until another took its shards over does nothing for them when it goes on.
// Fails when Owned asks the context alone, and when a term goes on after it has lapsed: a heartbeat comes through before anybody looks.
func TestAReplicaThatWasStoppedSendsNothingForWhatItLost(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.join("other")
	f.await("other")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), replicaEnv+"="+f.url)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	acts := make(chan act, 1000)
	go readActs(out, acts)
	seen := map[int]bool{}
	for len(seen) < 2 {
		seen[receive(t, acts).shard] = true
	}
	must(t, cmd.Process.Signal(syscall.SIGSTOP))
	f.await("other")
	resumed := time.Now()
	f.mu.Lock()
	released := f.change
	f.mu.Unlock()
	must(t, cmd.Process.Signal(syscall.SIGCONT))
	// It comes to own the same shards again, when the other has given them back.
	for {
		a := receive(t, acts)
		if a.at.Before(resumed) {
			continue
		}
		select {
		case <-released:
		default:
			t.Errorf("it acted for shard %d, %s after it went on", a.shard, a.at.Sub(resumed))
		}
		return
	}
}

// act is what a replica would have sent.
type act struct {
	shard int
	at    time.Time
}

func readActs(out interface{ Read([]byte) (int, error) }, acts chan<- act) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		shard, at, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.Atoi(shard)
		nanos, err2 := strconv.ParseInt(at, 10, 64)
		if err == nil && err2 == nil {
			acts <- act{n, time.Unix(0, nanos)}
		}
	}
	close(acts)
}

// keyValue is a bucket of members whose watch is played by the test.
type keyValue struct {
	jetstream.KeyValue
	slow time.Duration // how long a write takes

	mu       sync.Mutex
	revision uint64
}

func (k *keyValue) Put(ctx context.Context, _ string, _ []byte) (uint64, error) {
	if err := wait(ctx, k.slow); err != nil {
		return 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.revision++
	return k.revision, nil
}

// beatEntry is a heartbeat as the watch hands it out.
type beatEntry struct {
	jetstream.KeyValueEntry
	revision uint64
}

func (beatEntry) Key() string                     { return "one" }
func (beatEntry) Value() []byte                   { return []byte(`["deliver"]`) }
func (e beatEntry) Revision() uint64              { return e.revision }
func (beatEntry) Operation() jetstream.KeyValueOp { return jetstream.KeyValuePut }

// A stopped process finds the heartbeats of before in its buffers when it goes on.
// Fails when a heartbeat counts from when it comes back.
func TestAHeartbeatCountsFromWhenItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMembership("one", &keyValue{})
		m.offer(kindDeliver)
		beat := func() { must(t, m.sayAlive(t.Context())) }
		beat()
		if m.alive("one") {
			t.Error("alive before the heartbeat came back")
		}
		m.observe(beatEntry{revision: 1})
		number := m.term.Load().number
		if owner, _ := m.owner(kindDeliver, "x"); owner != "one" || !m.holds(number) {
			t.Fatalf("owner %q, holds %t", owner, m.holds(number))
		}
		<-time.After(memberBeat)
		beat() // confirmed, and the process is stopped
		<-time.After(selfTTL)
		m.observe(beatEntry{revision: 2})
		if owner, _ := m.owner(kindDeliver, "x"); owner != "" || m.holds(number) || m.alive("one") {
			t.Errorf("owner %q, holds %t by a heartbeat of before", owner, m.holds(number))
		}
		// The watch is faster than the confirmation.
		m.observe(beatEntry{revision: 3})
		beat()
		if owner, _ := m.owner(kindDeliver, "x"); owner != "one" || !m.alive("one") {
			t.Errorf("owner %q after a new heartbeat", owner)
		}
		if m.holds(number) || !m.holds(m.term.Load().number) {
			t.Error("the term that had lapsed goes on")
		}
		<-time.After(memberBeat)
		beat()
		m.observe(beatEntry{revision: 4})
		<-time.After(selfTTL - time.Millisecond)
		if !m.alive("one") {
			t.Error("the term was not made longer")
		}
		<-time.After(time.Millisecond)
		if m.holds(m.term.Load().number) {
			t.Error("the term outlives its last heartbeat")
		}
	})
}

// Fails when a heartbeat waits for the one before, or its write for less than it may count.
func TestASlowServerIsNotTakenForALostOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &keyValue{slow: 2200 * time.Millisecond}
		m := newMembership("one", kv)
		m.offer(kindDeliver)
		var sending sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		sending.Go(func() { m.heartbeat(ctx, slog.New(slog.DiscardHandler)) })
		for range 200 {
			<-time.After(100 * time.Millisecond) // virtual
			synctest.Wait()
			kv.mu.Lock()
			m.observe(beatEntry{revision: kv.revision})
			kv.mu.Unlock()
		}
		if number := m.term.Load().number; number != 1 || !m.holds(1) {
			t.Errorf("in term %d, which lasts: %t", number, m.holds(number))
		}
		cancel()
		sending.Wait()
	})
}
