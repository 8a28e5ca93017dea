package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	v1 "notifier/api/v1"
	"notifier/api/v1beta3"
	"notifier/internal/alerts"
	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/receiver/oidc"
	"notifier/internal/reconcile/kube"
)

// Clients are the ways to the API server. The kinds and the Secrets have budgets of their own.
type Clients struct {
	Receivers kube.Resource[*v1.Receiver, *v1.ReceiverList]
	Alerts    kube.Resource[*v1beta3.Alert, *v1beta3.AlertList]
	Providers kube.Resource[*v1beta3.Provider, *v1beta3.ProviderList]
	// Secrets must not have a rate limit of its own: Options.SecretQPS is it.
	Secrets SecretSource
}

// NewClients returns clients of the API server that config names. config's QPS and Burst (or RateLimiter) hold for the three kinds
// together, for reading and for writing status.
func NewClients(config *rest.Config, log *slog.Logger) (Clients, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1.AddToScheme(scheme), v1beta3.AddToScheme(scheme)); err != nil {
		return Clients{}, fmt.Errorf("scheme: %w", err)
	}
	shared := kube.SharedBudget(config)
	stable, err := kube.NewAPI(shared, scheme, v1.GroupVersion, log)
	if err != nil {
		return Clients{}, err
	}
	beta, err := kube.NewAPI(shared, scheme, v1beta3.GroupVersion, log)
	if err != nil {
		return Clients{}, err
	}
	secrets, err := newSecretClient(config)
	if err != nil {
		return Clients{}, err
	}
	return Clients{
		Receivers: kube.NewResource(stable, "receivers",
			func() *v1.Receiver { return &v1.Receiver{} }, func() *v1.ReceiverList { return &v1.ReceiverList{} }),
		Alerts: kube.NewResource(beta, "alerts",
			func() *v1beta3.Alert { return &v1beta3.Alert{} }, func() *v1beta3.AlertList { return &v1beta3.AlertList{} }),
		Providers: kube.NewResource(beta, "providers",
			func() *v1beta3.Provider { return &v1beta3.Provider{} }, func() *v1beta3.ProviderList { return &v1beta3.ProviderList{} }),
		Secrets: secrets,
	}, nil
}

// Options wire a Reconciler. Where nothing else is said a field is required.
type Options struct {
	Clients Clients
	// Hooks, Subscriptions, Alerts and Destinations are the tables to fill.
	Hooks         HookTable
	Subscriptions SubscriptionTable
	Alerts        *alerts.Table
	Destinations  *alerts.Destinations
	// Requests does what is asked for by annotations.
	Requests Requests
	// Ledger tells of Alerts and Providers at work, Health of Receivers, and what was acted on of the annotations of the others.
	Ledger Ledger
	Health HealthFeed
	Events EventRecorder
	// Alive reports whether the replica of that name runs; it may ask the replica. What others reported of Receivers' deliveries goes with them.
	Alive func(ctx context.Context, replica string) bool
	// Issuers is given to every Receiver whose senders have tokens of an issuer.
	Issuers *oidc.Issuers
	// Objects is what the filters of Receivers read, and Kinds are the kinds that it has where the cluster serves them.
	Objects WatchedObjects
	Kinds   []string
	// Quiet closes when the more urgent reads of a start are over. Secrets are watched from then on, or half a minute after the start.
	Quiet <-chan struct{}
	// Network is given to every Provider.
	Network provider.Network
	// Identities gives Providers the workload identity of the service accounts that they name, nil in an installation without.
	Identities *Identities
	// Namespace is the only one served, empty for all.
	Namespace string
	// DefaultServiceAccount is the account of Receivers that name none.
	DefaultServiceAccount string
	// Limits are those of Providers that name none.
	Limits registry.Limits
	// MaxAlertsPerNamespace is how many Alerts of a namespace are served, the oldest; zero for all.
	MaxAlertsPerNamespace int
	// RequireSecretLabel says that only Secrets with the label v1.SecretLabel are used.
	RequireSecretLabel bool
	// Workers is how many objects of one kind are compiled at once, 16 by default. A worker may wait for a Secret to be read.
	Workers int
	// StatusWorkers is how many statuses of one kind are written at once, 4 by default.
	StatusWorkers int
	// SecretQPS bounds the reads of Secrets a second, 500 by default, with bursts of ten times as many, and apart from them the
	// watches that are begun.
	SecretQPS float64
	// MinRetryDelay and MaxRetryDelay bound the pause before a failed reconcile is tried again; 250 ms and 1 min by default.
	MinRetryDelay, MaxRetryDelay time.Duration
	Log                          *slog.Logger
	Registerer                   prometheus.Registerer
}

const (
	defaultWorkers       = 16
	defaultStatusWorkers = 4
	defaultSecretQPS     = 500
)

// validate reports every fault and fills the defaults in.
func (o *Options) validate() error {
	o.Workers = cmp.Or(o.Workers, defaultWorkers)
	o.StatusWorkers = cmp.Or(o.StatusWorkers, defaultStatusWorkers)
	o.SecretQPS = cmp.Or(o.SecretQPS, defaultSecretQPS)
	var errs []error
	for _, need := range []struct {
		name    string
		missing bool
	}{
		{"Clients", o.Clients.Receivers.In == nil || o.Clients.Alerts.In == nil || o.Clients.Providers.In == nil || o.Clients.Secrets == nil},
		{"Hooks", o.Hooks == nil},
		{"Subscriptions", o.Subscriptions == nil},
		{"Alerts", o.Alerts == nil},
		{"Destinations", o.Destinations == nil},
		{"Ledger", o.Ledger == nil},
		{"Health", o.Health == nil},
		{"Alive", o.Alive == nil},
		{"Events", o.Events == nil},
		{"Requests", o.Requests == nil},
		{"Quiet", o.Quiet == nil},
		{"Issuers", o.Issuers == nil},
		{"Objects", o.Objects == nil},
		{"DefaultServiceAccount", o.DefaultServiceAccount == ""},
		{"Log", o.Log == nil},
		{"Registerer", o.Registerer == nil},
	} {
		if need.missing {
			errs = append(errs, fmt.Errorf("%s is missing", need.name))
		}
	}
	if o.Workers < 0 || o.StatusWorkers < 0 || o.SecretQPS < 0 || o.MaxAlertsPerNamespace < 0 {
		errs = append(errs, errors.New("a negative Workers, StatusWorkers, SecretQPS or MaxAlertsPerNamespace"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("reconcile options: %w", err)
	}
	return nil
}

// secretLimits are the budgets of reading Secrets and of beginning to watch them. A start reads all Secrets and is to take seconds, so
// what it may read at once is ten times what may be read a second from then on; how many are asked for at a time is bounded as well.
func (o *Options) secretLimits() (reads, watches *rate.Limiter) {
	burst := max(1, int(10*o.SecretQPS))
	return rate.NewLimiter(rate.Limit(o.SecretQPS), burst), rate.NewLimiter(rate.Limit(o.SecretQPS), burst)
}
