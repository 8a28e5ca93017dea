package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"notifier/internal/event"
	"notifier/internal/fair"
	"notifier/internal/options"
	"notifier/internal/reconcile/kube"
)

// Bus delivers triggers.
type Bus interface {
	// Triggers calls serve in each term of this replica as the worker, with a context that ends with the term, until ctx ends.
	Triggers(ctx context.Context, serve func(ctx context.Context, in <-chan event.Message[event.Trigger]) error) error
}

// Receiver has the parts of a live Receiver that matter to the Applier.
type Receiver struct {
	Namespace, Name, UID string
	Created              time.Time
	Generation           int64
	// ServiceAccount is the account named in the spec, or the default.
	ServiceAccount string
	Targets        []event.Target
	index          *index
}

// Receivers are the live Receivers, each Indexed.
type Receivers interface {
	Live(namespace, name string) (Receiver, bool)
	// Uncompiled reports whether the Receiver of that name and UID exists, and its present state is still to become the live one. A namespace
	// may have used up its turns to compile.
	Uncompiled(namespace, name, uid string) bool
	// InNamespace returns the Receivers of a namespace, ordered by name.
	InNamespace(namespace string) []Receiver
	// Namespaces returns the namespaces that have live Receivers, and perhaps others.
	Namespaces() []string
	// Follow has changed called from now on with every Receiver that is new, or whose targets or account changed. changed must not block.
	Follow(changed func(namespace, name string))
}

// Selector finds objects by their labels in the watchers' cache. watched is false when the cache lacks some objects of the kind. Of a
// target's API version only the group counts, and an empty one means any group.
type Selector interface {
	// Select returns the names of the objects that a target selects.
	Select(namespace string, target event.Target) (names []string, watched bool)
	// Pending reports whether the objects of a kind are still being read and will soon be watched.
	Pending(kind string) bool
	// Selects reports whether a target selects the object of that name.
	Selects(namespace string, target event.Target, name string) (selected, watched bool)
}

// Options configure an Applier.
type Options struct {
	Bus       Bus
	Receivers Receivers
	// Compiled is closed when all existing Receivers were compiled. Until then nothing is taken from the bus.
	Compiled <-chan struct{}
	Selector Selector
	// Catalogue finds the resources by which kinds are written. The caller runs it.
	Catalogue *kube.Catalogue
	Client    *Client
	Reports   Reports
	// Access, if not nil, is asked for the permissions of service accounts before there is anything to write.
	Access *Access
	// ReviewInterval is the pause before the same question is asked again.
	ReviewInterval time.Duration
	// Account is the service account, in a served namespace, that is checked for all while there is no Receiver.
	Account struct{ Namespace, Name string }
	// Kinds are the resources that the installation permits to be written.
	Kinds []schema.GroupResource
	// Interval is the least time between two requests for one object.
	Interval time.Duration
	// QPS and Burst bound the requests to the API server.
	QPS   float64
	Burst int
	// Workers bounds the requests in flight, 16 by default. A namespace has at most a quarter of them.
	Workers    int
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

func (o *Options) validate() error {
	o.Workers = cmp.Or(o.Workers, 16)
	errs := []error{options.Missing(map[string]bool{
		"Bus": o.Bus == nil, "Receivers": o.Receivers == nil, "Compiled": o.Compiled == nil, "Selector": o.Selector == nil,
		"Catalogue": o.Catalogue == nil, "Client": o.Client == nil, "Reports": o.Reports == nil, "Log": o.Log == nil,
		"Registerer": o.Registerer == nil,
	})}
	if !(o.Interval > 0 && o.QPS > 0 && o.Burst > 0 && o.Workers > 0 && o.ReviewInterval > 0) {
		errs = append(errs, errors.New("an Interval, QPS, Burst, Workers or ReviewInterval that is not positive"))
	}
	return errors.Join(errs...)
}

// Applier writes the reconcile requests while its replica is the worker.
type Applier struct {
	opts      Options
	lines     *fair.Lines
	metrics   *metrics
	limiter   *rate.Limiter
	refusals  *refusals
	authority *authority
	// searching and searched bound the searches for Receivers that ask for what another's webhook was for: one of a namespace at a time, and
	// their time.
	searching *fair.Capacities[string]
	searched  *fair.Share
	// term is the present term, nil while another replica is the worker.
	term atomic.Pointer[term]
}

// New wires an Applier. Run starts it.
func New(opts Options) (*Applier, error) {
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("apply options: %w", err)
	}
	a := &Applier{
		opts: opts, lines: fair.NewLines(), metrics: newMetrics(opts.Registerer),
		limiter:   rate.NewLimiter(rate.Limit(opts.QPS), opts.Burst),
		searching: fair.NewCapacities[string](nil, 1, 0),
		searched:  fair.NewShare(fair.ShareOptions{Window: searchWindow, Namespace: searchTime}),
	}
	a.refusals = newRefusals(opts.Reports, a.works, opts.Log)
	a.authority = newAuthority(a)
	opts.Receivers.Follow(func(namespace, name string) { a.reviewer().changed(namespace, name) })
	return a, nil
}

// reviewer returns the reviewer of the present term, nil for none.
func (a *Applier) reviewer() *reviewer {
	if t := a.term.Load(); t != nil {
		return t.reviews
	}
	return nil
}

// works reports whether this replica is the worker.
func (a *Applier) works() bool {
	t := a.term.Load()
	return t != nil && t.owned()
}

// anyAccount returns a service account that may have to be impersonated.
func (a *Applier) anyAccount() (namespace, name string) {
	namespaces := a.opts.Receivers.Namespaces()
	slices.Sort(namespaces) // the same one each time
	for _, namespace := range namespaces {
		if all := a.opts.Receivers.InNamespace(namespace); len(all) > 0 {
			return namespace, all[0].ServiceAccount
		}
	}
	return a.opts.Account.Namespace, a.opts.Account.Name
}

// Run applies triggers until ctx ends or the bus is lost, and joins all goroutines that it started. It is called once.
func (a *Applier) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	asks, stopAsking := context.WithCancel(ctx)
	defer stopAsking()
	if a.opts.Access != nil {
		wg.Go(func() { a.authority.queue.Run(asks) })
	}
	select {
	case <-ctx.Done():
		return nil
	case <-a.opts.Compiled:
	}
	reports, stop := context.WithCancel(context.WithoutCancel(ctx)) // they end after the last term
	defer stop()
	wg.Go(func() { a.refusals.run(reports) })
	if err := a.opts.Bus.Triggers(ctx, a.serve); err != nil && ctx.Err() == nil {
		return fmt.Errorf("triggers: %w", err)
	}
	return nil
}

// line returns the log for one line about a namespace. It drops a line beyond the bounds of fair.Lines.
func (a *Applier) line(namespace string) *slog.Logger {
	left, ok := a.lines.Admit(namespace)
	if !ok {
		return slog.New(slog.DiscardHandler)
	}
	return a.opts.Log.With("namespace", namespace, "lines_left_out", left)
}
