package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"notifier/internal/bus/embedded"
	"notifier/internal/bus/lease"
	"notifier/internal/fair"
)

// ErrLost is returned by Run when the bus will not recover in this process. Either the embedded JetStream shut down or cannot write a
// stream, as on a full disk, or the connection was closed for good, or a remote server has a stream no longer. The process should end with
// an error and be restarted.
var ErrLost = errors.New("bus is lost")

const (
	connectTimeout = 5 * time.Second
	apiTimeout     = 5 * time.Second
	lossInterval   = 500 * time.Millisecond
	// payloadHeadroom is the number of bytes that the headers, labels and an Alert's own metadata may add to an event.
	payloadHeadroom = 256 << 10
	// minMajor and minMinor are the first version with scheduled messages and the reset of consumers.
	minMajor, minMinor = 2, 14
)

// Bus is a connection to the streams, with the server itself when it is embedded.
type Bus struct {
	opts     Options
	log      *slog.Logger
	embedded *embedded.Server // nil with a remote server
	nc       *nats.Conn
	js       jetstream.JetStream
	streams  map[string]jetstream.Stream
	buckets  map[string]jetstream.KeyValue
	created  map[string]time.Time // by stream, those of the buckets included
	metrics  *metrics
	sync     func(ctx context.Context, stream string) error // of the embedded server; nil with a remote one

	lease            *lease.Lease
	events, triggers *committer
	history          *history
	reads            *reads
	quotas           map[string]*quotas                  // by stream
	turns            map[string]*fair.Capacities[string] // of single messages, by stream and namespace
	pendingTriggers  *pendingTriggers
	triggerQuotas    *triggerQuotas
	recent           *recent
	backlogged       *backlogged
	duplicates       *duplicates // nil with a remote server
	stats            *stats
	progress         *progress
	poisoning        poisoning
	deadLists        singleflight.Group
	deadList         sync.Mutex // held while the dead letters are listed
	takeOvers        *fair.Capacity
	notTaken         rate.Sometimes // warnings that a consumer cannot be taken over: all of them, while the server is away
	givenUp          rate.Sometimes // errors of consumers: all fail for one reason, each once a second
	interrupted      rate.Sometimes // the same for a server that is lost for moments
	remembered       *rate.Limiter  // the times of removed messages that the server may remember
	crashes          *crashes       // of this replica's term as the worker; a term begins after every call of the one before has returned

	work   sync.WaitGroup // rounds of the committers, and what readAhead began
	closed atomic.Bool
	ending chan struct{} // closed when answers are no longer awaited
	end    func()        // closes ending
	// stopReading ends what readAhead began.
	stopReading context.CancelFunc
}

func newBus(o Options) *Bus {
	b := &Bus{
		opts: o, log: o.Log,
		streams: map[string]jetstream.Stream{}, buckets: map[string]jetstream.KeyValue{}, created: map[string]time.Time{},
		quotas: map[string]*quotas{}, turns: map[string]*fair.Capacities[string]{}, progress: newProgress(), poisoning: defaultPoisoning, takeOvers: fair.NewCapacity(takeOvers),
		notTaken: rate.Sometimes{Interval: warnEvery}, givenUp: rate.Sometimes{Interval: warnEvery}, interrupted: rate.Sometimes{Interval: warnEvery},
		remembered: rate.NewLimiter(rememberedRate, rememberedBurst),
		crashes:    &crashes{}, recent: newRecent(), backlogged: newBacklogged(), ending: make(chan struct{}),
		stopReading: func() {},
	}
	b.end = sync.OnceFunc(func() { close(b.ending) })
	b.reads = newReads(b)
	for _, stream := range allStreams {
		b.turns[stream] = fair.NewCapacities[string](fair.NewCapacity(maxUnanswered), maxUnansweredEach, 0)
	}
	return b
}

// Open starts the embedded server or connects to the remote one, and makes or updates the streams and buckets.
func Open(ctx context.Context, o Options) (_ *Bus, err error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("bus options: %w", err)
	}
	b := newBus(o)
	defer func() {
		if err != nil {
			b.abandon()
		}
	}()
	if o.URL == "" {
		if err := b.startEmbedded(ctx); err != nil {
			return nil, err
		}
	}
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := b.untilReachable(opening, b.connect); err != nil {
		return nil, err
	}
	if err := b.setUp(opening); err != nil {
		return nil, err
	}
	b.pendingTriggers = newPendingTriggers()
	b.lease = lease.New(lease.Options{
		Bucket: b.buckets[bucketWorker], Self: b.opts.ReplicaID, Alone: b.embedded != nil, Log: b.log, Begin: b.countCrashes,
	})
	if err := b.followReplicas(); err != nil {
		return nil, err
	}
	b.stats = newStats(b)
	if b.metrics, err = newMetrics(o.Registerer, b.lease.Held); err != nil {
		return nil, err
	}
	if b.embedded != nil {
		if err := b.prepareEmbedded(opening); err != nil {
			return nil, err
		}
	}
	b.history = newHistory(b)
	b.history.together = min(maxRecords, int(b.nc.MaxPayload()))
	if b.embedded != nil {
		b.readAhead(ctx)
	}
	b.events = newEventCommitter(b)
	b.triggerQuotas = newTriggerQuotas(b)
	b.triggers = newTriggerCommitter(b)
	for _, stream := range append([]string{streamEvents}, forgetful...) {
		b.quotas[stream] = newQuotas(b.streams[stream].CachedInfo().Config)
	}
	if err := b.untilReachable(opening, b.stats.refresh); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Bus) startEmbedded(ctx context.Context) (err error) {
	b.embedded, err = embedded.Start(ctx, embedded.Options{
		Dir: b.opts.DataDir, Synced: syncedStreams(), Fsync: b.opts.fsync, Log: b.log,
		Fit: func(available int64) (int64, error) { return b.opts.Budgets.fit(available, b.log) },
	})
	return err
}

// prepareEmbedded does what an embedded server needs between the set-up of its streams and the first publish.
func (b *Bus) prepareEmbedded(ctx context.Context) error {
	if err := b.embedded.Begin(b.metrics.syncBegun); err != nil {
		return err
	}
	b.sync = b.embedded.Sync
	info, err := b.streams[streamTriggers].Info(ctx)
	if err != nil {
		return fmt.Errorf("read stream: %w", err)
	}
	b.pendingTriggers.stored(info.State.LastSeq)
	return nil
}

// readAhead begins to read from the embedded server what is needed before the first event is published and the first delivery is sent. The
// rest of the start goes on meanwhile. A term reads HISTORY again if that failed here.
func (b *Bus) readAhead(ctx context.Context) {
	ctx, b.stopReading = context.WithCancel(context.WithoutCancel(ctx))
	b.duplicates = newDuplicates(b.opts.DuplicateWindow)
	b.duplicates.loaded = make(chan struct{})
	history := b.history
	b.work.Go(func() { b.loadDuplicates(ctx) })
	b.work.Go(func() { _ = history.load(ctx) })
}

func (b *Bus) connect(context.Context) (err error) {
	if b.nc, err = b.dial(""); err != nil {
		return err
	}
	var major, minor int
	version := b.nc.ConnectedServerVersion()
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil || major < minMajor || major == minMajor && minor < minMinor {
		return fmt.Errorf("NATS server has version %q, at least %d.%d is needed", version, minMajor, minMinor)
	}
	answer := publishTimeout
	if b.embedded != nil {
		answer = lateAnswer
	}
	b.js, err = jetstream.New(b.nc, jetstream.WithDefaultTimeout(apiTimeout),
		jetstream.WithPublishAsyncTimeout(answer), jetstream.WithPublishAsyncMaxPending(maxPublishing))
	if err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	return nil
}

// dial opens a connection to the server. Its use is in its name, for operators.
func (b *Bus) dial(use string) (*nats.Conn, error) {
	warnings := rate.Sometimes{Interval: warnEvery} // refused credentials are tried again all the time
	options := []nats.Option{
		nats.Name(strings.TrimSpace("notifier " + b.opts.ReplicaID + " " + use)), nats.Timeout(connectTimeout), nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond), nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		// While the connection is lost a publish fails at once: the sender gets its 503 now, and no message that was answered with an error is
		// published later.
		nats.ReconnectBufSize(-1),
		// A server may refuse credentials for a while, as when they were rotated there first. The file is read again for each try.
		nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			warnings.Do(func() { b.log.Warn("NATS connection", "error", err) })
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if !b.closed.Load() {
				b.log.Warn("NATS connection is away", "error", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { b.log.Info("NATS connection is back") }),
	}
	if b.embedded != nil {
		options = append(options, nats.InProcessServer(b.embedded))
	}
	if b.opts.Creds != "" {
		options = append(options, nats.UserCredentials(b.opts.Creds))
	}
	nc, err := nats.Connect(b.opts.URL, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return nc, nil
}

// Run refreshes the statistics until ctx ends. It returns ErrLost when the bus will not recover.
func (b *Bus) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { b.stats.run(ctx); return nil })
	g.Go(func() error { return b.watchLoss(ctx) })
	return g.Wait()
}

func (b *Bus) watchLoss(ctx context.Context) error {
	for fair.Sleep(ctx, lossInterval) == nil {
		if err := b.lost(); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bus) lost() error {
	gone := b.stats.gone
	if b.embedded != nil {
		gone = b.embedded.Fault
	}
	if err := gone(); err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	if b.nc.IsClosed() {
		return fmt.Errorf("%w: connection closed", ErrLost)
	}
	return nil
}

// Close ends the connection and the embedded server, after every sent message has reached it. The consuming calls must have returned
// before.
func (b *Bus) Close(ctx context.Context) error {
	if b.closed.Swap(true) {
		return nil
	}
	b.stopReading()
	late := time.AfterFunc(publishTimeout, b.end)
	defer late.Stop()
	b.work.Wait()
	err := b.nc.FlushWithContext(ctx)
	if errors.Is(err, nats.ErrConnectionClosed) {
		err = nil
	}
	b.abandon()
	if err != nil {
		return fmt.Errorf("flush bus: %w", err)
	}
	return nil
}

func (b *Bus) abandon() {
	b.closed.Store(true)
	b.stopReading()
	b.end()
	b.reads.close()
	if b.nc != nil {
		b.nc.Close()
	}
	if b.embedded != nil {
		b.embedded.Stop()
	}
}

// MaxPayload returns the size of the largest event body, in bytes of JSON as received, that the events endpoint should accept. A smaller
// body can still be refused with ErrTooLarge when it grows in encoding.
func (b *Bus) MaxPayload() int { return max(int(b.nc.MaxPayload())-payloadHeadroom, payloadHeadroom) }

// Shards returns the number of shards in use, which is the number that the streams were made with.
func (b *Bus) Shards() int { return b.opts.Shards }
