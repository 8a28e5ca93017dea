package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"notifier/internal/alerts"
	"notifier/internal/bus"
	"notifier/internal/receiver"
	"notifier/internal/receiver/spiffe"
	"notifier/internal/receiver/subscribe"
	"notifier/internal/reconcile"
	"notifier/internal/reconcile/apply"
	"notifier/internal/reconcile/definitions"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/recorder"
	"notifier/internal/reconcile/watch"
)

// The graces of the stages at shutdown. Together they stay below 10 seconds; the Deployment gives a Pod 20.
const (
	listenersDrain = 1500 * time.Millisecond // of listenersGrace, requests in progress
	listenersGrace = 2 * time.Second
	sendsDrain     = 2500 * time.Millisecond // of workGrace, sends in progress
	workGrace      = 4 * time.Second
	kubeGrace      = time.Second
	busGrace       = 500 * time.Millisecond
	closeGrace     = 1500 * time.Millisecond
)

// App is the process: wired and listening, and idle until Run.
type App struct {
	options  Options
	log      *slog.Logger
	registry *prometheus.Registry
	clients  clients

	bus       *bus.Bus
	recorder  *recorder.Recorder
	reconcile *reconcile.Reconciler
	watcher   *watch.Watcher
	// definitions reports whether the cluster's definitions of the three kinds are complete.
	definitions *definitions.Checker
	applier     *apply.Applier
	router      *alerts.Router
	deliverer   *alerts.Deliverer
	// takeUp is nil with an external NATS.
	takeUp *takeUp
	// deliveries reports the webhooks and events of Receivers.
	deliveries *receiver.Reporter
	// subscriber triggers the Receivers of type event.
	subscriber *subscribe.Subscriber
	// svid is nil if no listener asks for clients' SPIFFE IDs.
	svid      *spiffe.Source
	listeners []part
	health    *health
}

// New opens the bus, wires every part and listens on every address. The options must have passed Validate.
func New(ctx context.Context, o Options) (*App, error) {
	a := &App{options: o, log: newLogger(o.LogOutput, o.LogLevel, o.LogEncoding), registry: prometheus.NewRegistry()}
	setProcessors()
	setGCPercent(startPercent)
	if limit, ok := memoryLimit(os.Getenv("GOMEMLIMIT")); ok {
		debug.SetMemoryLimit(limit)
	}
	a.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	kube.RouteClientLogs(a.log)
	log.SetOutput(io.Discard) // net/http quotes there what a destination sends unasked, a tenant's token for instance
	kube.CountClientRequests(a.registry)
	logSettings(a.log, o, os.Getenv)
	var err error
	if a.clients, err = newClients(o, a.log.With("component", "api")); err != nil {
		return nil, err
	}
	a.bus, err = bus.Open(ctx, bus.Options{
		DataDir: o.busDir(), URL: o.NATSURL, Creds: o.NATSCreds, Replicas: o.StreamReplicas,
		DuplicateWindow: o.RateLimitInterval, HistoryAge: max(o.HistoryAge, bus.MinHistoryAge), NoHistory: o.HistoryAge == 0,
		DeadPerProvider: o.DeadPerProvider,
		Log:             a.log.With("component", "bus"), Registerer: a.registry,
	})
	if err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	if err := a.wire(ctx); err != nil {
		return nil, errors.Join(err, a.closeBus(ctx))
	}
	return a, nil
}

// busDir returns the embedded server's directory, empty with an external server.
func (o Options) busDir() string {
	if o.NATSURL != "" {
		return ""
	}
	return o.DataDir
}

// Run starts every part and blocks until ctx ends or a part fails; then it stops every part, within 10 seconds.
func (a *App) Run(ctx context.Context) error {
	a.log.Info("starting", "version", a.options.Version, "pid", os.Getpid())
	// The probe reports that the process stops as soon as ctx ends; the listeners close right after.
	stop := context.AfterFunc(ctx, func() { a.health.stopping.Store(true) })
	defer stop()
	failure := runStages(ctx, a.log, []stage{
		{"bus", busGrace, []part{{"bus", a.bus.Run}}},
		{"kubernetes", kubeGrace, []part{
			{"collect", a.collect},
			{"recorder", a.recorder.Run},
			{"catalogue", a.clients.catalogue.Run},
			{"controllers", a.reconcile.Run},
			{"watchers", func(ctx context.Context) error { return a.watcher.Run(ctx, a.reconcile.Complete()) }},
			{"deliveries", a.deliveries.Run},
			{"definitions", a.definitions.Run},
		}},
		{"work", workGrace, []part{
			{"router", a.router.Run},
			{"deliverer", a.deliverer.Run},
			{"subscriber", a.subscriber.Run},
			{"applier", a.applier.Run},
			{"worker", a.work},
		}},
		{"listeners", listenersGrace, append(a.listeners, part{"announcement", a.announce})},
	})
	if err := a.closeBus(ctx); err != nil {
		a.log.Warn("the bus did not close in order", "error", err)
	}
	if failure == nil {
		a.log.Info("stopped")
	}
	return failure
}

// work watches, writes status and answers the requests of owners while this replica is the worker. Meanwhile the other parts of its stage
// route, deliver and apply. A replica becomes the worker only after it has compiled everything.
func (a *App) work(ctx context.Context) error {
	select {
	case <-a.reconcile.Complete():
	case <-ctx.Done():
		return nil
	}
	return a.bus.Work(ctx, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return a.reconcile.Lead(ctx) })
		group.Go(func() error { return a.watcher.Lead(ctx) })
		group.Go(func() error { return a.bus.Answer(ctx, a.deliverer) })
		return group.Wait()
	})
}

// closeBus closes the bus, and waits for that at most its grace. In any case the bus keeps everything on disk.
func (a *App) closeBus(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- a.bus.Close(ctx) }() // left behind if it outlives the grace: the process ends
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return errors.New("bus did not close in time")
	}
}
