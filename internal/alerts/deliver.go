package alerts

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"notifier/internal/event"
	"notifier/internal/event/view"
	"notifier/internal/fair"
	"notifier/internal/options"
)

// Bus keeps the deliveries and the events.
type Bus interface {
	// Deliveries calls serve when this process comes to own a shard, with a context that ends with the ownership. Each shard has one owner at a
	// time, who is handed its rescheduled deliveries.
	Deliveries(ctx context.Context, serve func(ctx context.Context, shard int, in <-chan event.Message[event.Delivery]) error) error
	// Backlog lists the deliveries of a shard that were rescheduled and not acknowledged since.
	Backlog(ctx context.Context, shard int) ([]event.Scheduled, error)
	// Shards is the number of shards.
	Shards() int
	// DeliveryShard returns the shard of a Provider's deliveries.
	DeliveryShard(namespace, provider string) int
	// Quota returns how many deliveries of one namespace may wait on the bus, and how many bytes of them.
	Quota() (deliveries int, bytes int64)

	// Reschedule has the delivery handed out again at a time. Of equal deliveries the last one on the schedule stays there, unless it is put there
	// as the time of the one before comes: that is then handed out in its stead. Its error is event.ErrTooLarge for a delivery that is too large
	// for the bus.
	Reschedule(ctx context.Context, d *event.Delivery, at time.Time) error
	// Recall reads a rescheduled delivery before its time. It stays on the schedule until it is acknowledged.
	Recall(ctx context.Context, shard int, p event.Scheduled) (event.Recalled, error)

	// DeadLetter keeps a delivery that was given up. The label is from a small closed set, and the reason is safe to show.
	DeadLetter(ctx context.Context, d *event.Delivery, label, reason string) error
	// DeadProviders counts the dead letters of each Provider of a shard that has any.
	DeadProviders(ctx context.Context, shard int) (map[event.ProviderKey]int, error)
	// NextDead returns the first one of a Provider at a sequence or later, in the order in which they were given up, and the sequence from
	// which to go on, 0 after the last one. It returns no letter where that is older than since or cannot be read.
	NextDead(ctx context.Context, namespace, provider string, since time.Time, from uint64) (letter *event.Dead, next uint64, err error)
	// Replay has a dead letter handed out again as a delivery. Equal deliveries with equal Replays and Reschedules are replayed once. Its error
	// is event.ErrTooLarge for a delivery that is too large for the bus.
	Replay(ctx context.Context, letter event.Dead) error

	// Sent records a sent delivery in the history, and WasSent reports whether one is there.
	Sent(ctx context.Context, d *event.Delivery) error
	WasSent(ctx context.Context, d *event.Delivery) (bool, error)

	// ListDeliveries returns a page of the deliveries of a namespace that a query selects, newest first.
	ListDeliveries(ctx context.Context, namespace string, q view.Query) (view.Page[view.Delivery], error)
	// FindDeliveries returns the kept deliveries of some IDs, none of them older than since unless that is zero.
	FindDeliveries(ctx context.Context, namespace string, since time.Time, ids []string) (map[string]view.Delivery, error)
	// EventAt returns the event at a place in the stream of events, or view.ErrNotFound.
	EventAt(ctx context.Context, namespace string, order uint64) (*event.Record, error)
}

// DelivererOptions wires a Deliverer. All but ReplayWindow are required, the numbers and times positive.
type DelivererOptions struct {
	Bus          Bus
	Alerts       *Table
	Destinations *Destinations
	Reports      *Ledger
	Recorder     Recorder
	// Types are the Provider types that metrics distinguish.
	Types []string
	// Quota is how many deliveries of one namespace may wait. Its Providers have equal shares in it.
	Quota int
	// ReplayWindow is the greatest age at which a dead letter is replayed when its Provider is mended, zero for no replay.
	ReplayWindow time.Duration
	// MaxAge is how long a delivery is tried.
	MaxAge time.Duration
	// Gate is closed when the tables are complete. An event that was routed earlier, or a delivery that was looked at, would miss its Alert.
	Gate <-chan struct{}
	// DrainTimeout is how long sends under way may take when a shard is given up.
	DrainTimeout time.Duration
	Log          *slog.Logger
	Registerer   prometheus.Registerer
}

// Deliverer sends deliveries to their Providers.
type Deliverer struct {
	DelivererOptions
	metrics  deliverMetrics
	shares   *shares
	sends    *sends
	logLines *fair.Lines
	shards   *serving
	// asked bounds the requests of owners, for replays and tests, that are served at a time, rate those for one Provider, and again the replays
	// of one delivery.
	asked *fair.Capacities[string]
	rate  *fair.Limiters[event.ProviderKey]
	again *fair.Limiters[string] // by namespace and ID
	// whole bounds the deliveries that are read whole at a time.
	whole *fair.Capacities[string]
	// heldBytes is about the size of the deliveries in the memory of all shards.
	heldBytes atomic.Int64
}

// NewDeliverer returns a Deliverer that is not running, or an error that joins the faults of the options.
func NewDeliverer(o DelivererOptions) (*Deliverer, error) {
	if err := options.Missing(map[string]bool{
		"Bus": o.Bus == nil, "Alerts": o.Alerts == nil, "Destinations": o.Destinations == nil, "Reports": o.Reports == nil,
		"Recorder": o.Recorder == nil, "Types": len(o.Types) == 0, "Quota": o.Quota < 1, "MaxAge": o.MaxAge <= 0, "Gate": o.Gate == nil,
		"DrainTimeout": o.DrainTimeout <= 0, "Log": o.Log == nil, "Registerer": o.Registerer == nil,
	}); err != nil {
		return nil, fmt.Errorf("deliverer options: %w", err)
	}
	d := &Deliverer{
		DelivererOptions: o, sends: newSends(), logLines: fair.NewLines(), shares: newShares(), metrics: newDeliverMetrics(o.Registerer, o.Types),
		asked: fair.NewCapacities[string](fair.NewCapacity(requestsAtOnce), 1, 0),
		rate:  fair.NewLimiters[event.ProviderKey](rate.Every(requestEvery), requestBurst, requestKeys),
		again: fair.NewLimiters[string](rate.Every(againEvery), 1, againKeys),
		whole: fair.NewCapacities[string](fair.NewCapacity(lettersAtOnce), namespaceLetters, 0),
	}
	d.shards = newServing(o.Bus.Shards(), o.Reports, d.shares)
	d.metrics.begin(otherType)
	o.Destinations.eachType(d.metrics.begin)
	d.registerGauges()
	return d, nil
}

// Run serves the shards that the bus gives to this process until ctx ends or the bus is lost. It returns when the sends under way have
// ended or DrainTimeout is over, and every other delivery is back on the bus.
func (d *Deliverer) Run(ctx context.Context) error {
	if !opened(ctx, d.Gate) {
		return nil
	}
	return d.Bus.Deliveries(ctx, d.serve)
}

// ServesAll reports whether this process serves every shard.
func (d *Deliverer) ServesAll() bool { return d.shards.whole() }

// serve owns one shard until ctx ends.
func (d *Deliverer) serve(ctx context.Context, shard int, in <-chan event.Message[event.Delivery]) error {
	backlog, err := d.Bus.Backlog(ctx, shard)
	if err != nil {
		return fmt.Errorf("list what waits on shard %d: %w", shard, err)
	}
	d.shards.begin(time.Now())
	defer func() { d.shards.end(time.Now()) }()
	s := newShard(d, shard)
	defer s.takeBack()
	s.expect(backlog, time.Now())
	if err := s.expectDead(ctx, time.Now()); err != nil {
		return fmt.Errorf("list what was given up on shard %d: %w", shard, err)
	}
	s.run(ctx, in)
	return nil
}
