package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sync/errgroup"

	"notifier/internal/event"
	"notifier/internal/fair"
)

// nodeEnv makes the test binary a server of a cluster until it is killed: a node as JSON.
const nodeEnv = "NOTIFIER_BUS_NODE"

type node struct {
	Name, Dir    string
	Port, Routes int // of clients and of the cluster
	Peers        []int
}

func (n node) run() int {
	var routes []*url.URL
	for _, port := range n.Peers {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	s, err := server.NewServer(&server.Options{
		ServerName: n.Name, Host: "127.0.0.1", Port: n.Port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: n.Dir,
		JetStreamMaxStore: 16 << 30, JetStreamMaxMemory: 64 << 20,
		Cluster: server.ClusterOpts{Name: "nats", Host: "127.0.0.1", Port: n.Routes}, Routes: routes,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s.Start()
	s.WaitForShutdown()
	return 0
}

// cluster is three servers in processes of their own, as a StatefulSet has them.
type cluster struct {
	t     testing.TB
	nodes []node
	cmds  []*exec.Cmd
	urls  string
}

// startCluster starts them without waiting for them.
func startCluster(t testing.TB) *cluster {
	t.Helper()
	const size = 3
	c := &cluster{t: t, cmds: make([]*exec.Cmd, size)}
	var ports []int
	for range 2 * size {
		ports = append(ports, claimPort(t))
	}
	var urls []string
	for i := range size {
		c.nodes = append(c.nodes, node{
			Name: fmt.Sprint("nats-", i), Dir: t.TempDir(), Port: ports[i], Routes: ports[size+i], Peers: ports[size:],
		})
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
	}
	c.urls = strings.Join(urls, ",")
	t.Cleanup(func() {
		for i := range c.cmds {
			c.kill(i)
		}
	})
	return c
}

// claimPort returns a port that belongs to this test until it ends, also while a killed server is down. It is below those that the kernel
// gives to connections, and the UDP socket of the same number marks it as taken.
func claimPort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10000 + rand.IntN(22768)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		claim, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			must(t, claim.Close())
			continue
		}
		t.Cleanup(func() { _ = claim.Close() })
		must(t, l.Close())
		return port
	}
	t.Fatal("no free port")
	return 0
}

func (c *cluster) start(i int) {
	c.t.Helper()
	config, err := json.Marshal(c.nodes[i])
	must(c.t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), nodeEnv+"="+string(config))
	cmd.Stderr = os.Stderr
	must(c.t, cmd.Start())
	c.cmds[i] = cmd
}

func (c *cluster) kill(i int) {
	if c.cmds[i] != nil {
		_ = c.cmds[i].Process.Kill()
		_ = c.cmds[i].Wait()
		c.cmds[i] = nil
	}
}

// replicas opens one Bus for each server.
func (c *cluster) replicas() []*Bus {
	c.t.Helper()
	buses := make([]*Bus, len(c.nodes))
	var g errgroup.Group
	for i := range buses {
		g.Go(func() (err error) {
			buses[i], err = Open(testContext(c.t), testOptions("", func(o *Options) { o.URL, o.Replicas, o.Shards = c.urls, len(buses), 4 }))
			return err
		})
	}
	err := g.Wait()
	for _, b := range buses {
		if b != nil {
			c.t.Cleanup(func() { closeBus(c.t, b) })
			start(c.t, b.Run)
		}
	}
	must(c.t, err)
	return buses
}

// Replicas that start together with an empty cluster find no leader at first, then too few peers, and make the same streams at once. Fails
// when one of these ends a start, or when a request without an answer is waited for until the time-out is over.
//
// T4 for a server that is killed while it leads a consumer: a trigger is handed out soon after the others have agreed on leaders. A worker
// that continues to ask the silent consumer doubles the longest wait.
//
// Fails as well when a replica reads a value from a copy of its bucket that lacks what was just written.
func TestThreeReplicasStartOnAnEmptyClusterAndOutliveAServer(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := startCluster(t)
	for i := range c.nodes {
		c.start(i)
	}
	buses := c.replicas()
	for _, b := range buses {
		for b.Ready() != nil {
			must(t, fair.Sleep(testContext(t), 50*time.Millisecond))
		}
	}
	took := time.Since(began)
	t.Logf("ready after %s", took)
	if took > 20*time.Second { // some three when nothing else runs
		t.Error("that took too long")
	}
	readTheNewest(t, buses)

	w := &waits{from: map[string]time.Time{}}
	for _, b := range buses {
		start(t, func(ctx context.Context) error { return b.Triggers(ctx, w.serve) })
	}
	stop := start(t, func(ctx context.Context) error { return w.publish(ctx, buses) })
	must(t, fair.Sleep(testContext(t), 2*time.Second))
	consumer, err := buses[0].streams[streamTriggers].Consumer(testContext(t), triggerRole(0).name)
	must(t, err)
	leader := slices.IndexFunc(c.nodes, func(n node) bool { return n.Name == consumer.CachedInfo().Cluster.Leader })
	c.kill(leader)
	killed := time.Now()
	must(t, fair.Sleep(testContext(t), 2*time.Second))
	c.start(leader)
	back := time.Now()
	must(t, fair.Sleep(testContext(t), 6*time.Second))
	stop()
	for w.open() > 0 {
		if time.Since(back) > testTimeout {
			t.Fatalf("%d triggers were not handed out", w.open())
		}
		_ = fair.Sleep(t.Context(), 50*time.Millisecond)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.took)
	t.Logf("%d triggers, killed for %s: p50 %s, p99 %s, longest %s", len(w.took), back.Sub(killed), w.took[len(w.took)/2],
		w.took[len(w.took)*99/100], w.took[len(w.took)-1])
	if longest := w.took[len(w.took)-1]; longest > 20*time.Second {
		t.Errorf("one took %s", longest)
	}
}

// readTheNewest writes values and reads each on all replicas. One in ten was a former one when a read was answered by any copy.
func readTheNewest(t *testing.T, buses []*Bus) {
	t.Helper()
	ctx, wrong := testContext(t), 0
	const writes = 100
	for i := range writes {
		key, value := fmt.Sprint("Provider/team/", i%5), fmt.Sprint(i)
		err := buses[0].Health().Put(ctx, key, []byte(value))
		for _, b := range buses {
			var read []byte
			if err == nil {
				read, err = b.Health().Get(ctx, key)
			}
			if err != nil {
				t.Logf("not checked any further: %v", err) // on a busy machine the copies may elect another leader
				return
			}
			if string(read) != value {
				wrong++
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d reads lack what was written before", wrong, writes*len(buses))
	}
}

// waits measures how long triggers take from their acceptance until they are handed out.
type waits struct {
	mu   sync.Mutex
	from map[string]time.Time
	took []time.Duration
}

func (w *waits) open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.from)
}

func (w *waits) publish(ctx context.Context, buses []*Bus) error {
	for i := 0; fair.Sleep(ctx, 20*time.Millisecond) == nil; i++ {
		key := fmt.Sprint(i)
		w.mu.Lock()
		w.from[key] = time.Now() // it may be handed out before the publisher has its acknowledgement
		w.mu.Unlock()
		if buses[i%len(buses)].PublishTriggers(ctx, testTrigger(fmt.Sprint("team", i%16), key, 1)) != nil {
			w.mu.Lock()
			delete(w.from, key) // refused, and perhaps stored nevertheless
			w.mu.Unlock()
		}
	}
	return nil
}

func (w *waits) serve(ctx context.Context, in <-chan event.Message[event.Trigger]) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case h, open := <-in:
			if !open {
				return nil
			}
			w.mu.Lock()
			if from, ok := w.from[h.Value.Key]; ok {
				w.took = append(w.took, time.Since(from))
				delete(w.from, h.Value.Key)
			}
			w.mu.Unlock()
			go func() { _ = h.Ack(context.WithoutCancel(ctx)) }()
		}
	}
}
