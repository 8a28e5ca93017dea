package bus

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"notifier/internal/event"
	"notifier/internal/fair"
)

// link is a network between a replica and a server that can lose messages on their way.
type link struct {
	URL string

	lossy atomic.Bool // drops the server's messages
	down  atomic.Bool // accepts no connection
	// busy is how long, in nanoseconds, a request to change a consumer keeps the server from the others of its connection.
	busy  atomic.Int64
	pulls atomic.Int64 // how many requests for messages are still lost
	asked atomic.Int64 // how many other requests were sent to JetStream
	mu    sync.Mutex
	conns []net.Conn
}

func newLink(t testing.TB, url string) *link {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	l := &link{URL: "nats://" + listener.Addr().String()}
	address := strings.TrimPrefix(url, "nats://")
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := (&net.Dialer{}).Dial("tcp", address)
			if err == nil && l.down.Load() {
				err = upstream.Close()
			}
			if err != nil || l.down.Load() {
				_ = client.Close()
				continue
			}
			l.mu.Lock()
			l.conns = append(l.conns, client, upstream)
			l.mu.Unlock()
			running.Go(func() { _ = l.forward(upstream, client); _ = upstream.Close() })
			running.Go(func() { _, _ = io.Copy(lossyWriter{client, l}, upstream); _ = client.Close() })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); l.cut(); running.Wait() })
	return l
}

// cut ends all connections.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

// forward copies a client's commands to the server until one of them is gone.
func (l *link) forward(upstream io.Writer, client io.Reader) error {
	in := bufio.NewReader(client)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		fields, size, lost := strings.Fields(line), 0, false
		if command := fields[0]; command == "PUB" || command == "HPUB" {
			if size, err = strconv.Atoi(fields[len(fields)-1]); err != nil {
				return err
			}
			size += len("\r\n")
			if subject := fields[1]; strings.HasPrefix(subject, "$JS.API.CONSUMER.MSG.NEXT.") {
				lost = l.pulls.Add(-1) >= 0
			} else if strings.HasPrefix(subject, "$JS.API.") {
				l.asked.Add(1)
				if strings.HasPrefix(subject, "$JS.API.CONSUMER.") {
					_ = fair.Sleep(context.Background(), time.Duration(l.busy.Load()))
				}
			}
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(in, body); err != nil {
			return err
		}
		if lost {
			continue
		}
		if _, err := upstream.Write(append([]byte(line), body...)); err != nil {
			return err
		}
	}
}

type lossyWriter struct {
	net.Conn
	link *link
}

func (w lossyWriter) Write(b []byte) (int, error) {
	if w.link.lossy.Load() {
		return len(b), nil
	}
	return w.Conn.Write(b)
}

// T4: messages that the server had handed out when a connection broke, and that never arrived, are handed out again after a reconnection.
// Fails when a consumer is not taken over anew after a reconnection: the server keeps such messages until event.AckWait is over.
func TestT4MessagesOnTheirWayWhenTheConnectionBrokeComeSoon(t *testing.T) {
	t.Parallel()
	url := remote(t)
	network := newLink(t, url)
	connect := func(name, url string) *Bus {
		return open(t, "", func(o *Options) { o.URL, o.ReplicaID, o.Shards = url, name, 1 })
	}
	worker, other := connect("worker", network.URL), connect("other", url)
	start(t, worker.Run)
	held := make(chan event.Message[event.Trigger])
	start(t, triggerTo(worker, held))
	ctx := testContext(t)
	must(t, other.PublishTriggers(ctx, testTrigger("team", "before", 1)))
	must(t, receive(t, held).Ack(ctx))

	network.lossy.Store(true)
	const lost = 5
	for i := range lost {
		must(t, other.PublishTriggers(ctx, testTrigger("team", fmt.Sprint("lost", i), 1)))
	}
	for pending := 0; pending < lost; { // the server has handed them out
		c, err := other.streams[streamTriggers].Consumer(ctx, triggerRole(0).name)
		must(t, err)
		pending = c.CachedInfo().NumAckPending
	}
	network.cut()
	network.lossy.Store(false)
	back := time.Now()
	for range lost {
		must(t, receive(t, held).Ack(ctx))
	}
	took := time.Since(back)
	t.Logf("handed out %s after the network was back", took)
	if took > 10*time.Second {
		t.Error("that took too long")
	}
}

// T4: a fleet resumes when its server was restarted. Fails when calls do not find the lease again: no message is handed out then.
func TestTheFleetGoesOnWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t, dir, server.RANDOM_PORT)
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	f := fleetOn(t, s.ClientURL())
	one, _, _ := f.join("one")
	f.await("one")
	two, _, _ := f.join("two")
	port := s.Addr().(*net.TCPAddr).Port
	s.Shutdown()
	s.WaitForShutdown()
	s = startServer(t, dir, port)
	back := time.Now()
	ctx := testContext(t)
	for i := 0; i < 16; {
		if err := publishDeliveries(ctx, one, []event.Delivery{testDelivery(fmt.Sprint(i), "team", fmt.Sprint("p", i))}); err == nil {
			i++
		}
	}
	for range 16 {
		_ = receive(t, f.held).Ack(ctx)
	}
	took := time.Since(back)
	t.Logf("all were handed out %s after the server was back", took)
	if took > 20*time.Second { // half a second when nothing else runs
		t.Error("that took too long")
	}
	if one.lease.Held() == two.lease.Held() {
		t.Errorf("one is the worker: %t, two: %t", one.lease.Held(), two.lease.Held())
	}
}

// T4, E2: a term begins with a server whose disk is slow. Fails when the requests of all roles are sent at once: each role then waits for all
// others, longer than for an answer, and begins anew behind its own former requests, while the lease lapses behind them.
func TestATermBeginsWithAServerThatIsSlow(t *testing.T) {
	t.Parallel()
	network := newLink(t, remote(t))
	b := open(t, "", func(o *Options) { o.URL, o.Shards = network.URL, 16 })
	network.busy.Store(int64(120 * time.Millisecond))
	served := make(chan int, 1000)
	start(t, func(ctx context.Context) error {
		return b.Deliveries(ctx, func(ctx context.Context, shard int, _ <-chan event.Message[event.Delivery]) error {
			served <- shard
			<-ctx.Done()
			return nil
		})
	})
	for range b.Shards() {
		receive(t, served)
	}
}

// Fails when a reader whose request for messages was lost does not ask again in time: a start, which reads EVENTS, would fail.
func TestAReaderWhoseRequestIsLostAsksAgain(t *testing.T) {
	t.Parallel()
	l := newLink(t, remote(t))
	b := open(t, "", func(o *Options) { o.URL = l.URL })
	published(t, b, "1", "team", "app")
	l.pulls.Store(1)
	read := len(stored(t, b, time.Now().Add(-time.Hour), func() {}))
	if read != 1 || l.pulls.Load() >= 0 {
		t.Errorf("%d events are read, with %d requests for messages", read, 1-l.pulls.Load())
	}
}

// Fails when an event is published before the IDs of the last ones are known, when the process counts as ready before that, or when they are
// given up because the server, or its disk, stands still while they are read.
func TestAnEventWaitsForTheIDsOfTheLastEvents(t *testing.T) {
	t.Parallel()
	l := newLink(t, remote(t))
	b := open(t, "", func(o *Options) { o.URL = l.URL })
	published(t, b, "1", "team", "app")
	b.duplicates = newDuplicates(time.Hour)
	b.duplicates.loaded = make(chan struct{})
	publish := func(ctx context.Context) (bool, error) { return b.PublishEvent(ctx, testRecord("1", "team", "app")) }
	early, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := publish(early); !errors.Is(err, errNoIDs) || !errors.Is(b.Ready(), errNoIDs) {
		t.Errorf("an event is published with %v, readiness is %v", err, b.Ready())
	}
	l.pulls.Store(2)
	b.loadDuplicates(testContext(t))
	must(t, b.Ready())
	if _, found := b.duplicates.find("1", time.Now()); !found {
		t.Error("the ID of an event is not known")
	}
	if duplicate, err := publish(testContext(t)); !duplicate || err != nil {
		t.Errorf("a duplicate: %t, %v", duplicate, err)
	}
}

// Fails when a call that follows events goes on after its context has ended, for as long as the server does not answer: a shutdown would wait
// for the server, and so would all that begin to follow the same list.
func TestFollowingEndsAlsoWhileTheServerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	l := newLink(t, remote(t))
	b := open(t, "", func(o *Options) { o.URL = l.URL })
	ctx, begun := testContext(t), make(chan struct{})
	stop := start(t, following(b, time.Now(), func(*event.Record) {}, func() { close(begun) }))
	receive(t, begun)
	l.lossy.Store(true)
	for asked := l.asked.Load(); l.asked.Load() == asked; { // it has noticed
		must(t, fair.Sleep(ctx, 50*time.Millisecond))
	}
	ended := time.Now()
	stop()
	if took := time.Since(ended); took > 2*time.Second {
		t.Errorf("it ended %s after its context", took)
	}
	l.lossy.Store(false)
	l.cut()
}
