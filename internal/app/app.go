package app

import (
	"context"
	"errors"
	"fmt"
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
	"notifier/internal/receiver/subscribe"
	"notifier/internal/reconcile"
	"notifier/internal/reconcile/apply"
	"notifier/internal/reconcile/watch"
)

// The graces of the stages at shutdown. Together they stay below the 10 seconds that a Pod is given by default here.
const (
	listenersDrain = 1500 * time.Millisecond // of the next, requests in progress
	listenersGrace = 2 * time.Second
	sendsDrain     = 2500 * time.Millisecond // of the next, sends under way
	workGrace      = 4 * time.Second
	kubeGrace      = time.Second
	busGrace       = 500 * time.Millisecond
	closeGrace     = 1500 * time.Millisecond
)

// App is the process, wired and listening, not yet at work.
type App struct {
	options  Options
	log      *slog.Logger
	registry *prometheus.Registry
	clients  clients

	bus       *bus.Bus
	recorder  *reconcile.Recorder
	reconcile *reconcile.Reconciler
	watcher   *watch.Watcher
	// definitions knows whether the cluster's definitions of the three kinds are whole.
	definitions *reconcile.Definitions
	applier     *apply.Applier
	router      *alerts.Router
	deliverer   *alerts.Deliverer
	// deliveries tells what came in for Receivers.
	deliveries *receiver.Reporter
	// subscriber triggers the Receivers of type event.
	subscriber *subscribe.Subscriber
	listeners  []part
	health     *health
}

// New opens the bus, wires every part and listens on every address. The options were validated.
func New(ctx context.Context, o Options) (*App, error) {
	a := &App{options: o, log: newLogger(o.LogOutput, o.LogLevel, o.LogEncoding), registry: prometheus.NewRegistry()}
	setGCPercent(startPercent)
	if limit, ok := memoryLimit(os.Getenv("GOMEMLIMIT")); ok {
		debug.SetMemoryLimit(limit)
	}
	a.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	reconcile.RouteClientLogs(a.log)
	reconcile.CountClientRequests(a.registry)
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

// busDir is the embedded server's directory; with an external one there is none.
func (o Options) busDir() string {
	if o.NATSURL != "" {
		return ""
	}
	return o.DataDir
}

// Run starts everything and blocks until ctx ends or a part fails; then it stops everything, within 10 seconds.
func (a *App) Run(ctx context.Context) error {
	a.log.Info("starting", "version", a.options.Version, "pid", os.Getpid())
	// The probe says that the process stops as soon as that is asked for; the listeners close right after.
	stop := context.AfterFunc(ctx, func() { a.health.stopping.Store(true) })
	defer stop()
	failure := runStages(ctx, a.log, []stage{
		{"bus", busGrace, []part{{"bus", a.bus.Run}}},
		{"kubernetes", kubeGrace, []part{
			{"trim", a.trim},
			{"garbage", a.boundGarbage},
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

// work watches, writes status and does what owners ask for while this replica is the worker, as the other parts of its stage route, deliver and apply then. A
// replica that has not compiled everything yet does not seek to be the worker.
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

// closeBus closes the bus, which keeps what is on disk in any case, and does not wait for it beyond its grace.
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
