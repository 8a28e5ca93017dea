package app

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"notifier/internal/alerts"
	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/bus"
	"notifier/internal/receiver"
	"notifier/internal/receiver/events"
	"notifier/internal/receiver/oidc"
	"notifier/internal/receiver/spiffe"
	"notifier/internal/receiver/subscribe"
	"notifier/internal/reconcile"
	"notifier/internal/reconcile/apply"
	"notifier/internal/reconcile/definitions"
	"notifier/internal/reconcile/recorder"
	"notifier/internal/reconcile/watch"
)

// wire makes every part over the bus and the clients. The tables connect the parts: the controllers fill them, and the webhook endpoint and
// the alert plane read them.
func (a *App) wire(ctx context.Context) error {
	hooks, err := receiver.NewTable(a.options.limits(), func(owner string) { a.reconcile.Moved(owner) })
	if err != nil {
		return err
	}
	a.recorder = recorder.New(recorder.NewSink(a.clients.events), a.log)
	subscriptions := subscribe.NewSubscriptions()
	plane := alertPlane{alerts: alerts.NewTable(), destinations: alerts.NewDestinations()}
	plane.ledger = alerts.NewLedger(plane.alerts, plane.destinations)
	for _, step := range []func() error{
		a.wireWatcher,
		func() error { return a.wireReconcile(hooks, subscriptions, plane) },
		a.wireDefinitions,
		a.wireApplier,
		func() error { return a.wireReports(hooks, subscriptions) },
		func() error { return a.wireSubscriber(subscriptions) },
		func() error { return a.wireAlerts(plane) },
		func() error { return a.listen(ctx, hooks) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// namespace returns the only served namespace, empty for all.
func (a *App) namespace() string {
	if a.options.WatchAllNamespaces {
		return ""
	}
	return a.options.RuntimeNamespace
}

// alertPlane connects the controllers and the alert plane: two tables that the controllers fill, and the ledger that they read.
type alertPlane struct {
	alerts       *alerts.Table
	destinations *alerts.Destinations
	ledger       *alerts.Ledger
}

func (a *App) wireReconcile(hooks *receiver.Table, subscriptions *subscribe.Subscriptions, plane alertPlane) error {
	network, err := provider.ParseNetwork(a.options.AllowDestinations, a.options.EnvironmentProxy)
	if err != nil {
		return fmt.Errorf("--allow-destinations: %w", err)
	}
	issuers, err := oidc.New(oidc.Options{Client: network.Client, Google: a.options.GoogleIssuer})
	if err != nil {
		return err
	}
	identities, err := a.identities()
	if err != nil {
		return err
	}
	a.reconcile, err = reconcile.New(reconcile.Options{
		Clients: a.clients.kinds, Hooks: hooks, Subscriptions: subscriptions, Alerts: plane.alerts, Destinations: plane.destinations,
		Ledger: plane.ledger, Health: a.bus.Health(), Alive: a.bus.Alive, Events: a.recorder, Issuers: issuers, Network: network,
		Requests:   func() reconcile.Requests { return a.deliverer }, // it is wired after the controllers
		Identities: identities, Namespace: a.namespace(),
		Limits:  registry.Limits{Slack: provider.Limit{Rate: rate.Limit(a.options.SlackRate), Burst: a.options.SlackBurst}},
		Objects: a.watcher, Kinds: kindNames(), Quiet: a.watcher.Filled(), DefaultServiceAccount: a.options.DefaultServiceAccount, MaxAlertsPerNamespace: a.options.MaxAlertsPerNamespace,
		MaxReceiversPerNamespace: a.options.MaxReceiversPerNamespace,
		RequireSecretLabel:       a.options.RequireSecretLabel, StatusWorkers: a.options.Concurrent, SecretQPS: float64(a.options.SecretQPS),
		Log: a.log.With("component", "reconcile"), Registerer: a.registry,
	})
	return err
}

// kindNames returns the names of the watched kinds.
func kindNames() []string {
	var names []string
	for _, k := range watch.Kinds() {
		names = append(names, k.Kind)
	}
	return names
}

func (a *App) wireDefinitions() (err error) {
	a.definitions, err = definitions.New(definitions.Options{
		Get: a.clients.server.Definition, Every: a.options.AccessReviewInterval,
		Log: a.log.With("component", "reconcile"), Registerer: a.registry,
	})
	return err
}

func (a *App) wireWatcher() (err error) {
	a.watcher, err = watch.New(watch.Options{
		Objects: a.clients.server, Catalogue: a.clients.catalogue, Namespace: a.namespace(),
		Events: a.bus, State: a.bus.State(), Changed: func(namespace string) { a.reconcile.ObjectsChanged(namespace) },
		Log: a.log.With("component", "watch"), Registerer: a.registry,
	})
	return err
}

func (a *App) wireApplier() (err error) {
	o := apply.Options{
		Bus: a.bus, Receivers: a.reconcile.Receivers(), Compiled: a.reconcile.Complete(), Selector: a.watcher,
		Catalogue: a.clients.catalogue, Client: a.clients.apply, Reports: a.bus.Health(),
		Access: a.clients.access, ReviewInterval: a.options.AccessReviewInterval,
		Interval: a.options.TriggerInterval, QPS: float64(a.options.TriggerQPS), Burst: max(1, int(2*a.options.TriggerQPS)),
		Log: a.log.With("component", "apply"), Registerer: a.registry,
	}
	o.Account.Namespace, o.Account.Name = cmp.Or(a.options.RuntimeNamespace, metav1.NamespaceDefault), a.options.DefaultServiceAccount
	for _, k := range watch.Kinds() {
		o.Kinds = append(o.Kinds, schema.GroupResource{Group: k.Group, Resource: k.Resource})
	}
	a.applier, err = apply.New(o)
	return err
}

func (a *App) wireSubscriber(subscriptions *subscribe.Subscriptions) (err error) {
	a.subscriber, err = subscribe.New(subscribe.Options{
		Events: a.bus, Triggers: a.bus, Subscriptions: subscriptions, Reports: a.bus.Health(), Gate: a.reconcile.Complete(),
		Log: a.log.With("component", "subscriber"), Registerer: a.registry,
	})
	return err
}

// wireReports makes the Reporter, which carries the counts of Receivers to the status writer.
func (a *App) wireReports(hooks *receiver.Table, subscriptions *subscribe.Subscriptions) (err error) {
	a.deliveries, err = receiver.NewReporter(receiver.ReporterOptions{
		Sources: []receiver.Source{hooks, subscriptions}, Reports: a.bus.Health(), Records: a.bus, Replica: a.bus.Replica(),
		Log: a.log.With("component", "receiver"),
	})
	return err
}

func (a *App) wireAlerts(plane alertPlane) (err error) {
	log := a.log.With("component", "alerts")
	a.deliverer, err = alerts.NewDeliverer(alerts.DelivererOptions{
		Bus: a.bus, Alerts: plane.alerts, Destinations: plane.destinations, Reports: plane.ledger, Recorder: a.recorder,
		Types: registry.Types(), Quota: a.options.NamespaceQuota, ReplayWindow: a.options.DeadLetterReplay, MaxAge: a.options.DeliveryMaxAge,
		DrainTimeout: sendsDrain, Gate: a.reconcile.Complete(), Log: log, Registerer: a.registry,
	})
	if err != nil {
		return err
	}
	a.router = alerts.NewRouter(a.bus, a.deliverer)
	return nil
}

// listen makes the listeners. They listen now and serve when Run is called.
func (a *App) listen(ctx context.Context, hooks *receiver.Table) error {
	log := a.log.With("component", "receiver")
	proxies, err := parseProxies(a.options.TrustedProxies)
	if err != nil {
		return fmt.Errorf("--trusted-proxies: %w", err)
	}
	webhooks, err := receiver.NewWebhooks(receiver.WebhooksOptions{
		Table: hooks, Triggers: a.bus, Proxies: proxies, Log: log, Registerer: a.registry,
	})
	if err != nil {
		return err
	}
	o := events.DefaultOptions()
	o.Events, o.Objects, o.Log, o.Registerer = a.bus, a.watcher, log, a.registry
	o.MaxBody, o.TooLarge, o.DuplicateWindow = a.bus.MaxPayload(), bus.ErrTooLarge, a.options.RateLimitInterval
	o.Address.Rate, o.Namespace.Rate = a.options.EventsClientRate, a.options.EventsNamespaceRate
	events, err := events.New(o)
	if err != nil {
		return err
	}
	if a.options.NATSURL == "" {
		a.takeUp = &takeUp{
			compiled: a.reconcile.Complete(), serves: a.deliverer.ServesAll, trim: debug.FreeOSMemory, over: make(chan struct{}),
		}
	}
	if len(a.options.AuthorizedNotifiers)+len(a.options.AuthorizedReceivers) > 0 {
		a.svid = spiffe.New(a.options.SPIFFESocket, log, a.registry)
		a.listeners = append(a.listeners, part{"X509-SVID", a.svid.Run})
	}
	a.health = &health{checks: a.checks()}
	all := listeners(a.options, webhooks, events, a.registry, a.health)
	if all, err = a.addAPI(all, proxies); err != nil {
		return err
	}
	for _, d := range all {
		if err := a.open(ctx, d, log); err != nil {
			return err
		}
	}
	return nil
}
