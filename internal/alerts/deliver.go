package alerts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"notifier/internal/event"
)

// DeliverySource hands out deliveries by shard, each shard to one owner at a time.
type DeliverySource interface {
	// Deliveries calls serve when this process comes to own a shard, with a context that ends with the ownership.
	Deliveries(ctx context.Context, serve func(ctx context.Context, shard int, in <-chan event.Held[event.Delivery]) error) error
	// Backlog tells what of a shard is on the bus: what is on the schedule, which comes later and out of order, and how many
	// messages are due, which come first, those of a former owner among them.
	Backlog(ctx context.Context, shard int) (event.Backlog, error)
}

// Schedule puts deliveries away.
type Schedule interface {
	// Park has the delivery handed out again at a time. The same delivery with the same Parks is parked once.
	Park(ctx context.Context, d *event.Delivery, at time.Time) error
	// DeadLetter keeps a delivery that was given up, with a label from a small closed set and a reason that is safe to show.
	DeadLetter(ctx context.Context, d *event.Delivery, label, reason string) error
}

// History knows what was sent.
type History interface {
	Sent(ctx context.Context, d *event.Delivery) error
	WasSent(ctx context.Context, d *event.Delivery) (bool, error)
}

// DefaultDrainTimeout is how long sends that are under way may take when a shard is given up.
const DefaultDrainTimeout = 5 * time.Second

// DelivererOptions wires a Deliverer. All but Gate and DrainTimeout are required.
type DelivererOptions struct {
	Source       DeliverySource
	Schedule     Schedule
	History      History
	Alerts       *Table
	Destinations *Destinations
	Reports      Reporter
	Recorder     Recorder
	// Types are the Provider types that metrics tell apart.
	Types []string
	// Gate, unless nil, is closed when the tables are complete. A delivery that was looked at earlier would miss its Alert.
	Gate         <-chan struct{}
	DrainTimeout time.Duration
	Log          *slog.Logger
	Registerer   prometheus.Registerer
}

func (o DelivererOptions) validate() error {
	var errs []error
	for name, missing := range map[string]bool{
		"Source": o.Source == nil, "Schedule": o.Schedule == nil, "History": o.History == nil, "Alerts": o.Alerts == nil,
		"Destinations": o.Destinations == nil, "Reports": o.Reports == nil, "Recorder": o.Recorder == nil,
		"Types": len(o.Types) == 0, "Log": o.Log == nil, "Registerer": o.Registerer == nil,
	} {
		if missing {
			errs = append(errs, fmt.Errorf("alerts.DelivererOptions: %s is missing", name))
		}
	}
	if o.DrainTimeout < 0 {
		errs = append(errs, errors.New("alerts.DelivererOptions: DrainTimeout is negative"))
	}
	return errors.Join(errs...)
}

// Deliverer brings deliveries to their Providers.
type Deliverer struct {
	DelivererOptions
	metrics deliverMetrics
	// oldest has, by shard, when what has waited longest came to be.
	oldest sync.Map
	// heldBytes is the size of the events that all shards hold.
	heldBytes atomic.Int64
}

// NewDeliverer checks the options.
func NewDeliverer(o DelivererOptions) (*Deliverer, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = DefaultDrainTimeout
	}
	d := &Deliverer{DelivererOptions: o, metrics: newDeliverMetrics(o.Registerer, o.Types)}
	promauto.With(o.Registerer).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "notifier_delivery_held_bytes", Help: "Bytes of the events that are held in memory for their destinations.",
	}, func() float64 { return float64(d.heldBytes.Load()) })
	promauto.With(o.Registerer).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "notifier_oldest_undelivered_seconds", Help: "Age of the delivery that has waited longest, attempts and waits included.",
	}, d.oldestAge)
	return d, nil
}

// oldestAge returns the age in seconds of the delivery that has waited longest in the shards owned here, 0 when none waits.
func (d *Deliverer) oldestAge() float64 {
	var oldest time.Time
	d.oldest.Range(func(_, value any) bool {
		if t := value.(time.Time); oldest.IsZero() || t.Before(oldest) {
			oldest = t
		}
		return true
	})
	if oldest.IsZero() {
		return 0
	}
	return time.Since(oldest).Seconds()
}

// showOldest tells oldestAge of a shard; the zero time takes it out.
func (d *Deliverer) showOldest(shard int, t time.Time) {
	if t.IsZero() {
		d.oldest.Delete(shard)
	} else {
		d.oldest.Store(shard, t)
	}
}

// Run serves the shards that the bus gives to this process until ctx ends or the bus is lost. It returns when the sends that
// were under way are settled or DrainTimeout is over, and everything else went back to the bus.
func (d *Deliverer) Run(ctx context.Context) error {
	if err := awaitGate(ctx, d.Gate); err != nil {
		return nil
	}
	return d.Source.Deliveries(ctx, d.serve)
}

// serve owns one shard until ctx ends.
func (d *Deliverer) serve(ctx context.Context, shard int, in <-chan event.Held[event.Delivery]) error {
	backlog, err := d.Source.Backlog(ctx, shard)
	if err != nil {
		return fmt.Errorf("list what waits on shard %d: %w", shard, err)
	}
	s := newShard(d, shard)
	s.expect(backlog, time.Now())
	s.run(ctx, in)
	return nil
}
