package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event"
)

func TestASecondProcessCannotOpenADataDirectory(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, nil)
	ctx, cancel := context.WithTimeout(testContext(t), 2*openRetry)
	defer cancel()
	_, err := Open(ctx, testOptions(dir, nil))
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("second Open: %v", err)
	}
}

// Fails when agreeOnShards is not called: messages that wait under the shards 2 to 7 would have no reader.
func TestTheNumberOfShardsIsThatOfTheFirstStart(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, func(o *Options) { o.Shards = 8 })
	closeBus(t, b)
	if b = open(t, dir, func(o *Options) { o.Shards = 2 }); b.Shards() != 8 {
		t.Errorf("%d shards", b.Shards())
	}
}

func TestOptionsReportEveryFault(t *testing.T) {
	_, err := Open(testContext(t), Options{
		DataDir: "x", URL: "y", Replicas: 9, Shards: -1, DuplicateWindow: -1, Budgets: Budgets{Events: -1},
	})
	for _, want := range []string{"exactly one", "replicas", "shards", "window", "budget", "Log", "Registerer"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %q", err, want)
		}
	}
}

func TestBudgetsFitTheDiskOrAreRefused(t *testing.T) {
	b := defaultBudgets()
	fit := func(available int64) error {
		_, err := b.fit(available, slog.New(slog.DiscardHandler))
		return err
	}
	must(t, fit(b.total()))
	if b != defaultBudgets() {
		t.Error("budgets that fit were changed")
	}
	must(t, fit(mib*512))
	if total := b.total(); total > 512*mib || total < 511*mib || b.Events < 100*mib {
		t.Errorf("scaled to %d MiB: %+v", total/mib, b)
	}
	if err := fit(mib); err == nil {
		t.Error("one MiB is enough")
	}
}

// A volume was restored to a smaller disk: the streams' bounds, and the bytes that the server reserves for them, are those of the larger
// one. Fails when the server's own limit is that of the budgets (it then refuses every stream that is larger, smaller bounds included), or
// when a bound is lowered below the unhandled messages.
func TestADataDirectoryOnASmallerDiskOpensWithAllThatIsOwed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const size, count = 100_000, 12
	b := open(t, dir, nil)
	ctx := testContext(t)
	for i := range count {
		r := testRecord(fmt.Sprint(i), "team", "app")
		r.Event.Message = strings.Repeat("x", size)
		_, err := b.PublishEvent(ctx, r)
		must(t, err)
	}
	closeBus(t, b)

	log := make(logged, 100)
	b = open(t, dir, func(o *Options) {
		o.Budgets, o.Log = defaultBudgets(), slog.New(slog.NewTextHandler(log, nil))
		_, err := o.Budgets.fit(minBudgets, slog.New(slog.DiscardHandler))
		must(t, err)
		o.Budgets.Events = size // the unrouted events of a larger disk do not fit within it
	})
	if line := receive(t, log); !strings.Contains(line, "more than its bound") {
		t.Errorf("log: %s", line)
	}
	seen := map[string]bool{}
	records := make(chan string)
	start(t, func(ctx context.Context) error {
		return b.Events(ctx, handlerOf(light, func(ctx context.Context, batch []*event.Record) error {
			for _, r := range batch {
				select {
				case records <- r.ID:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		}))
	})
	for len(seen) < count {
		seen[receive(t, records)] = true
	}
	must(t, b.PublishTriggers(ctx, testTrigger("team", "key", 1)))
}

// Fails when the bytes that the embedded server stores have no bound: DELIVERIES has none of its own.
func TestTheEmbeddedServerRefusesBeyondTheDisk(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	must(t, b.PublishTriggers(testContext(t), testTrigger("team", "before", 1)))
	must(t, b.embedded.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": {MaxStore: 1}}))
	if err := b.PublishTriggers(testContext(t), testTrigger("team", "after", 1)); !errors.Is(err, ErrFull) {
		t.Errorf("beyond the limit: %v", err)
	}
}

// A start at a server that may store too little says what to change, and how much it needs. Fails when setUpStream returns only the answer.
func TestAServerThatMayStoreTooLittleIsSaidToNeedMore(t *testing.T) {
	t.Parallel()
	small := startServerWith(t, t.TempDir(), server.RANDOM_PORT, func(o *server.Options) { o.JetStreamMaxStore = mib })
	t.Cleanup(func() { small.Shutdown(); small.WaitForShutdown() })
	b, err := Open(testContext(t), testOptions("", func(o *Options) { o.URL = small.ClientURL() }))
	if err == nil {
		closeBus(t, b)
		t.Fatal("a bus whose streams do not fit was opened")
	}
	budgets := defaultBudgets()
	if want := fmt.Sprintf("need %d MiB on each NATS server (max_file_store", budgets.total()/mib); !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %q", err, want)
	}
}

// Run ends with an error when JetStream shuts down in the process, as it does on a full disk. Fails when watchLoss does not check the
// embedded server.
func TestRunReturnsAnErrorWhenJetStreamShutsDown(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	readyWhen(t, b, "")
	done := make(chan error, 1)
	go func() { done <- b.Run(testContext(t)) }()
	must(t, b.embedded.ShutdownJetStream())
	if err := receive(t, done); !errors.Is(err, ErrLost) {
		t.Errorf("Run returned %v", err)
	}
	if err := b.Ready(); !errors.Is(err, ErrLost) {
		t.Errorf("Ready returned %v", err)
	}
	ctx, cancel := context.WithTimeout(testContext(t), 5*time.Second)
	defer cancel()
	if err := b.PublishTriggers(ctx, testTrigger("team", "key", 1)); err == nil {
		t.Error("a trigger was acknowledged")
	}
	if ctx.Err() != nil {
		t.Error("the refusal came too late for a sender of webhooks")
	}
}

// Fails when check ignores how long no message was taken.
func TestAConsumerThatTakesNothingIsNotReady(t *testing.T) {
	p := newProgress()
	g := p.start(role{name: "deliver-1"})
	g.waiting(3)
	if err := p.check(time.Now().Add(wedgedAfter - time.Second)); err != nil {
		t.Error(err)
	}
	if err := p.check(time.Now().Add(wedgedAfter + time.Second)); err == nil || !strings.Contains(err.Error(), "deliver-1") {
		t.Errorf("after a minute: %v", err)
	}
	g.stop()
	if err := p.check(time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
}

func TestTwoBusesOnOneRegistryAreRefused(t *testing.T) {
	registry := prometheus.NewRegistry()
	open(t, t.TempDir(), func(o *Options) { o.Registerer = registry })
	if _, err := Open(testContext(t), testOptions(t.TempDir(), func(o *Options) { o.Registerer = registry })); err == nil {
		t.Error("no error")
	}
}

// Fails when a start ends at the first request that the server does not answer.
func TestAStartWaitsForAServerThatIsAway(t *testing.T) {
	t.Parallel()
	address, arrive := absentServer(t)
	waiting := make(logged, 100)
	opened := make(chan *Bus, 1)
	go func() {
		defer close(opened)
		b, err := Open(testContext(t), testOptions("", func(o *Options) {
			o.URL, o.Log = "nats://"+address, slog.New(slog.NewTextHandler(waiting, nil))
		}))
		if err != nil {
			t.Errorf("Open: %v", err)
			return
		}
		opened <- b
	}()
	if line := receive(t, waiting); !strings.Contains(line, "waiting for NATS") {
		t.Errorf("log: %s", line)
	}
	arrive()
	if b := receive(t, opened); b != nil {
		closeBus(t, b)
	}
}

// absentServer returns an address without a server, until arrive is called: connections are closed before, and forwarded to a server
// afterwards. It keeps its port all the time, so that no other test gets it.
func absentServer(t testing.TB) (address string, arrive func()) {
	t.Helper()
	var server atomic.Value // its host and port
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var connections sync.WaitGroup
	t.Cleanup(connections.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	connections.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() {
				defer client.Close()
				to, ok := server.Load().(string)
				if !ok {
					return
				}
				upstream, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				connections.Go(func() {
					defer upstream.Close()
					_, _ = io.Copy(upstream, client)
				})
				_, _ = io.Copy(client, upstream)
			})
		}
	})
	return listener.Addr().String(), func() { server.Store(strings.TrimPrefix(remote(t), "nats://")) }
}

// dialled is a dialer whose attempts all fail with an error.
type dialled struct{ err error }

func (d dialled) Dial(string, string) (net.Conn, error) { return nil, d.err }

// A NATS that is started together with this process behind a headless Service has no address yet, and then no listener. Fails when away
// does not take an error of the network, or of a name's lookup, for a server that is not there yet.
func TestAServerThatCannotBeReachedYetIsWaitedFor(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	noHost := &net.DNSError{Err: "no such host", Name: "nats.nats", IsNotFound: true}
	for name, err := range map[string]error{
		"its name has no address":      dial(noHost),
		"its name cannot be looked up": noHost,
		"nobody listens":               dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)),
		"no way leads to it":           dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)),
	} {
		nc, err := nats.Connect("nats://nats.nats:4222", nats.SetCustomDialer(dialled{err}))
		if err == nil {
			nc.Close()
		}
		if !away(fmt.Errorf("connect to NATS: %w", err)) {
			t.Errorf("%s: %v counts as final", name, err)
		}
	}
	for _, err := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, errors.New("NATS server has version \"1.0\"")} {
		if away(err) {
			t.Errorf("%v counts as passing", err)
		}
	}
}

// Replicas that start together on a cluster make the same streams, and a server learns of one made through another a moment later. Fails
// when a start gives up at that: under load it did, "look up bucket worker: stream not found".
func TestAServerThatLagsIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Bus{log: slog.New(slog.DiscardHandler)}
		answers := []error{jetstream.ErrStreamNotFound, jetstream.ErrBucketNotFound, nil, errors.New("asked once more")}
		tries := 0
		err := b.untilReachable(t.Context(), func(context.Context) error {
			tries++
			return answers[tries-1]
		})
		if err != nil || tries != 3 {
			t.Errorf("%d tries, error %v", tries, err)
		}
	})
}

// Fails when a server that is away has the log grow by a line for each try, four a second.
func TestAServerThatIsAwayIsSeldomLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := make(logged, 1000)
		b := &Bus{log: slog.New(slog.NewTextHandler(lines, nil))}
		ctx, cancel := context.WithTimeout(t.Context(), openTimeout)
		defer cancel()
		if err := b.untilReachable(ctx, func(context.Context) error { return nats.ErrNoServers }); !errors.Is(err, nats.ErrNoServers) {
			t.Errorf("got %v", err)
		}
		if n := len(lines); n < 2 || n > 4 {
			t.Errorf("%d lines in %s", n, openTimeout)
		}
	})
}

// awayBucket is a bucket of a server that is away.
type awayBucket struct{ jetstream.KeyValue }

func (awayBucket) Get(context.Context, string) (jetstream.KeyValueEntry, error) {
	return nil, nats.ErrNoResponders
}

// Fails when the log grows by a line for each try of each consumer while the server is away: a hundred and thirty a second.
func TestConsumersOfAServerThatIsAwayAreSeldomLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := make(logged, 1000)
		b := newBus(Options{Log: slog.New(slog.NewTextHandler(lines, nil))})
		b.buckets[bucketWorker] = awayBucket{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var terms sync.WaitGroup
		for range 32 {
			terms.Go(func() { b.serveTerm(ctx, routeRole(), nil) })
		}
		terms.Wait()
		if n := len(lines); n < 2 || n > 7 {
			t.Errorf("%d lines in a minute", n)
		}
	})
}

// logged receives the lines of a log, as many as its capacity.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default:
	}
	return len(line), nil
}
