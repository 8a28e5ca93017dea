package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	v1 "notifier/api/v1"
	"notifier/api/v1beta3"
	"notifier/internal/alerts"
	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/options"
	"notifier/internal/receiver/oidc"
	"notifier/internal/reconcile/identity"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/secrets"
)

// Clients are the clients of the API server. The kinds and the Secrets have separate budgets.
type Clients struct {
	Receivers kube.Resource[*v1.Receiver]
	Alerts    kube.Resource[*v1.Alert]
	Providers kube.Resource[*v1.Provider]
	// Secrets must have no rate limit of its own: Options.SecretQPS limits it.
	Secrets secrets.Source
}

// NewClients returns clients of the API server that config names. config's QPS and Burst (or RateLimiter) limit the requests about the
// three kinds together, reads and writes of status.
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
	source, err := secrets.NewClient(config)
	if err != nil {
		return Clients{}, err
	}
	return Clients{
		Receivers: kube.NewResource(stable, "receivers", func() *v1.Receiver { return &v1.Receiver{} }),
		Alerts:    kube.NewResource(beta, "alerts", func() *v1.Alert { return &v1.Alert{} }),
		Providers: kube.NewResource(beta, "providers", func() *v1.Provider { return &v1.Provider{} }),
		Secrets:   source,
	}, nil
}

// Options configure a Reconciler. A field is required unless its comment says otherwise.
type Options struct {
	Clients Clients
	// Hooks, Subscriptions, Alerts and Destinations are the tables to fill.
	Hooks         HookTable
	Subscriptions SubscriptionTable
	Alerts        *alerts.Table
	Destinations  *alerts.Destinations
	// Requests returns the executor of the requests of annotations. It is called for the first of them.
	Requests func() Requests
	// Ledger reports Alerts and Providers at work. Health reports Receivers at work, and has the handled annotation values of Alerts and
	// Providers.
	Ledger Ledger
	Health HealthFeed
	Events EventRecorder
	// Alive reports whether the replica of that name runs; it may ask the replica. The reports of an ended replica about Receivers'
	// deliveries are removed.
	Alive func(ctx context.Context, replica string) bool
	// Issuers is passed to every Receiver whose senders use tokens of an issuer.
	Issuers *oidc.Issuers
	// Objects is the cache that the filters of Receivers read. Kinds are its kinds, each present if the cluster serves it.
	Objects WatchedObjects
	Kinds   []string
	// Quiet closes when the more urgent reads of a start are over. Secrets are watched from then on, or half a minute after the start.
	Quiet <-chan struct{}
	// Network is passed to every Provider.
	Network provider.Network
	// Identities returns to Providers the workload identity of the service accounts that they name. It is nil in an installation without
	// workload identity.
	Identities *identity.Accounts
	// Namespace is the only namespace that is served, empty for all.
	Namespace string
	// DefaultServiceAccount is the account of Receivers that name none.
	DefaultServiceAccount string
	// Limits apply to Providers that set none.
	Limits registry.Limits
	// MaxAlertsPerNamespace and MaxReceiversPerNamespace are the numbers of Alerts and Receivers of a namespace that are served, the oldest
	// ones; zero serves all.
	MaxAlertsPerNamespace, MaxReceiversPerNamespace int
	// RequireSecretLabel restricts the used Secrets to those with the label v1.SecretLabel.
	RequireSecretLabel bool
	// StatusWorkers is the number of statuses of one kind that are written at once, at most half of them of one namespace.
	StatusWorkers int
	// SecretQPS bounds the reads of Secrets a second, with bursts of ten times as many. Starts of watches have a limit of
	// their own, of the same size.
	SecretQPS  float64
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// compileWorkers is the number of objects of one kind that are compiled at once. A worker may wait for the read of a Secret.
const compileWorkers = 16

// validate returns an error that joins all faults.
func (o *Options) validate() error {
	errs := []error{options.Missing(map[string]bool{
		"Clients": o.Clients.Receivers.In == nil || o.Clients.Alerts.In == nil || o.Clients.Providers.In == nil || o.Clients.Secrets == nil,
		"Hooks":   o.Hooks == nil, "Subscriptions": o.Subscriptions == nil, "Alerts": o.Alerts == nil,
		"Destinations": o.Destinations == nil, "Ledger": o.Ledger == nil, "Health": o.Health == nil, "Alive": o.Alive == nil,
		"Events": o.Events == nil, "Requests": o.Requests == nil, "Quiet": o.Quiet == nil, "Issuers": o.Issuers == nil,
		"Objects": o.Objects == nil, "DefaultServiceAccount": o.DefaultServiceAccount == "", "Log": o.Log == nil,
		"Registerer": o.Registerer == nil,
	})}
	if o.StatusWorkers <= 0 || !(o.SecretQPS > 0) {
		errs = append(errs, errors.New("a StatusWorkers or SecretQPS that is not positive"))
	}
	if o.MaxAlertsPerNamespace < 0 || o.MaxReceiversPerNamespace < 0 {
		errs = append(errs, errors.New("a negative MaxAlertsPerNamespace or MaxReceiversPerNamespace"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("reconcile options: %w", err)
	}
	return nil
}
