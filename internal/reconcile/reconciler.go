package reconcile

import (
	"context"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/fair"
	"notifier/internal/receiver/limit"
	"notifier/internal/reconcile/apply"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/secrets"
)

// Reconciler fills the tables from the three kinds, and reports to the objects' owners.
type Reconciler struct {
	options Options
	log     *slog.Logger
	metrics *metrics
	secrets *secrets.Store
	live    apply.Receivers
	health  *healthTable
	matches matcher
	// compiling gives namespaces turns to compile their Receivers' and Providers' expressions, and the Providers' long Secrets.
	compiling *limit.Share
	// term reports whether this replica leads; nil means that it does not.
	term     atomic.Pointer[func() bool]
	complete chan struct{}
	// serving has the namespaces whose requests by annotations are being served.
	serving *fair.Capacities[string]

	// kinds has the three kinds by their names, which follow with their types.
	kinds     map[string]anyKind
	receivers *kindOf[*v1.Receiver]
	alerts    *kindOf[*v1.Alert]
	providers *kindOf[*v1.Provider]
	// recounts are the namespaces whose watched objects changed.
	recounts *kube.Controller[string]
}

// New wires a Reconciler. It starts nothing.
func New(o Options) (*Reconciler, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	r := &Reconciler{
		options: o, log: o.Log, metrics: newMetrics(o.Registerer), compiling: limit.NewCompileShare(),
		health: &healthTable{log: o.Log}, matches: newMatcher(o.Objects, o.Kinds),
		serving: fair.NewCapacities[string](nil, 1, 0), complete: make(chan struct{}), kinds: map[string]anyKind{},
	}
	r.secrets = secrets.New(secrets.Options{
		Source: o.Clients.Secrets, QPS: o.SecretQPS, Labelled: o.RequireSecretLabel,
		Changed: func(u secrets.User) { r.kinds[u.Kind].recompile(u.Key) },
		Started: r.complete, Quiet: o.Quiet, Log: o.Log, Registerer: o.Registerer,
	})
	r.recounts = r.newRecounts()
	r.wireProviders()
	r.wireAlerts()
	r.wireReceivers()
	return r, nil
}

func (r *Reconciler) wireReceivers() {
	c := &receiverController{
		kindOf: newKind(r, v1.ReceiverKind, r.options.Clients.Receivers, nil), share: limit.NewShare(), seed: maphash.MakeSeed(),
		ages: newAges(r.options.MaxReceiversPerNamespace),
	}
	r.receivers, r.live = c.kindOf, c
	c.wire(compiler[*v1.Receiver]{c.keys, c.compile, func(r *v1.Receiver, f fault) { c.refuse(r, f) }}, statusOptions[*v1.Receiver]{
		outcome: v1.ReadyCondition,
		show: func(o *v1.Receiver, v verdict) {
			showReceiver(o, v)
			if v.ready {
				r.matches.show(o)
			} else {
				removeCondition(o.Conditions(), matchingCondition)
			}
			if wait := r.health.count(o); wait > 0 {
				c.statusQueue.EnqueueAfter(kube.KeyOf(o), wait)
			}
			o.Status.Problem = problemOf(o)
		},
	})
}

func (r *Reconciler) wireAlerts() {
	c := &alertController{
		kindOf: newKind(r, v1.AlertKind, r.options.Clients.Alerts, kube.Indexers[*v1.Alert]{providerIndex: alertsByProvider}),
		ages:   newAges(r.options.MaxAlertsPerNamespace),
	}
	r.alerts = c.kindOf
	c.watchAsks()
	c.wire(compiler[*v1.Alert]{c.keys, c.compile, c.refuse}, statusOptions[*v1.Alert]{
		outcome: v1.ServingCondition, refine: r.withProvider,
		show: func(o *v1.Alert, _ verdict) {
			standing := r.standing(v1.AlertKind, o)
			endExpensive(o.Conditions(), standing)
			r.matches.show(o)
			endLosses(o, standing)
			detailAlert(o, standing)
			r.showLedger(o, v1.AlertKind, standing)
		},
	})
}

func (r *Reconciler) wireProviders() {
	c := &providerController{
		kindOf: newKind(r, v1.ProviderKind, r.options.Clients.Providers, nil),
		alert:  func(k kube.Key) (*v1.Alert, bool) { return r.alerts.objects.Get(k) },
	}
	r.providers = c.kindOf
	c.verdicts.changed = r.providerDecided
	c.watchAsks()
	c.wire(compiler[*v1.Provider]{c.keys, c.compile, c.refuse}, statusOptions[*v1.Provider]{
		outcome: v1.ServingCondition,
		show: func(o *v1.Provider, v verdict) {
			standing := r.standing(v1.ProviderKind, o)
			r.endFormer(o, v, standing)
			endLosses(o, standing)
			detailProvider(o, standing)
			r.showLedger(o, v1.ProviderKind, standing)
		},
	})
}

// providerDecided enqueues the status of a Provider and of the Alerts that name it.
func (r *Reconciler) providerDecided(k kube.Key) {
	r.providers.restate(k)
	for _, a := range r.alerts.objects.By(providerIndex, k.String()) {
		r.alerts.restate(kube.KeyOf(a))
	}
}

// Moved reports that a change of another Receiver gave the Receiver with a key ("namespace/name") a place on a webhook path, or took it
// away. It is the callback for a receiver.Table's moved. It does not block and does not call the table.
func (r *Reconciler) Moved(receiver string) {
	namespace, name, _ := strings.Cut(receiver, "/")
	r.receivers.recompile(kube.Key{Namespace: namespace, Name: name})
}

// Receivers returns the live Receivers, for the appliers.
func (r *Reconciler) Receivers() apply.Receivers { return r.live }

// Complete returns a channel that closes when every Receiver, Alert and Provider that was present at start is in the tables.
func (r *Reconciler) Complete() <-chan struct{} { return r.complete }

// Objects returns the number of objects of each kind.
func (r *Reconciler) Objects() (receivers, alerts, providers int) {
	return len(r.receivers.objects.All()), len(r.alerts.objects.All()), len(r.providers.objects.All())
}

// Waiting returns the kinds that are not compiled yet, for a readiness answer.
func (r *Reconciler) Waiting() []string {
	var waiting []string
	for _, name := range kinds {
		select {
		case <-r.kinds[name].allCompiled():
		default:
			waiting = append(waiting, name)
		}
	}
	return waiting
}

// Run compiles until ctx ends, and joins every goroutine that it started. It returns nil.
func (r *Reconciler) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { r.secrets.Run(ctx) })
	// All objects that name Secrets are known before the first compile and the first read of a Secret.
	named := []cache.DoneChecker{r.providers.named, r.receivers.named}
	r.providers.run(ctx, &group, named)
	r.receivers.run(ctx, &group, named)
	r.alerts.run(ctx, &group, nil)
	for _, k := range r.kinds {
		select {
		case <-k.allCompiled():
		case <-ctx.Done():
			return nil
		}
	}
	r.options.Hooks.Complete()
	close(r.complete)
	// Statuses are written last, so that a start shows no intermediate state.
	for _, k := range r.kinds {
		group.Go(func() { k.runStatus(ctx) })
	}
	group.Go(func() { r.alerts.askQueue.Run(ctx) })
	group.Go(func() { r.providers.askQueue.Run(ctx) })
	r.recounts.Run(ctx)
	return nil
}

// feedPause is the delay before a broken health feed is followed again.
const feedPause = 2 * time.Second

// Lead writes status, and removes Flux's finalizers, until ctx ends. It is called beside Run while this replica is the worker.
func (r *Reconciler) Lead(ctx context.Context) error {
	select {
	case <-r.complete:
	case <-ctx.Done():
		return nil
	}
	for _, k := range r.kinds {
		k.begin()
	}
	r.health.begin() // before any status is written, since another replica led meanwhile
	leads := func() bool { return ctx.Err() == nil && event.Owned(ctx) }
	r.term.Store(&leads)
	defer r.term.Store(nil)
	for _, k := range r.kinds {
		k.enqueueAll()
	}
	r.alerts.enqueueAsks()
	r.providers.enqueueAsks()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { r.sweep(ctx) })
	wg.Go(func() { r.follow(ctx) })
	for {
		err := r.options.Health.Watch(ctx, r.healthTold)
		if ctx.Err() != nil {
			return nil
		}
		r.log.Warn("health feed ended, following it again", "error", err)
		if fair.Sleep(ctx, feedPause) != nil {
			return nil
		}
		r.health.begin()
	}
}

// leads reports whether this replica leads. It is false as soon as another one may lead.
func (r *Reconciler) leads() bool {
	term := r.term.Load()
	return term != nil && (*term)()
}

func (r *Reconciler) healthTold(key string, value []byte) {
	if kind, k := r.health.take(key, value); kind != "" {
		r.kinds[kind].restate(k)
	}
}
