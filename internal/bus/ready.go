package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// wedgedAfter is how long a stage may take no message although one waits, and how long the server may be silent.
	wedgedAfter = 60 * time.Second
	// staleAfter is how old the last answer of the streams may be.
	staleAfter = 5 * statsInterval
)

// Ready returns nil while the bus is connected, the streams and the worker's lease answer, the IDs of the last events are known, and every
// consumer of this process makes progress. A replica is ready whether it is the worker or not.
func (b *Bus) Ready() error {
	if err := b.lost(); err != nil {
		return err
	}
	if b.closed.Load() || b.nc.Status() != nats.CONNECTED {
		return errors.New("not connected to NATS")
	}
	if _, answered := b.stats.state(streamEvents); time.Since(answered) > staleAfter {
		return fmt.Errorf("streams have not answered for %s", time.Since(answered).Truncate(time.Second))
	}
	if !b.duplicates.known() {
		return errNoIDs
	}
	now := time.Now()
	return errors.Join(b.lease.Check(now), b.progress.check(now))
}

// Work calls serve whenever this replica becomes the worker, until ctx ends. The context of serve ends with the term or with ctx, and
// carries the fence (event.Owned) if the term can lapse; the replica stays the worker until serve returns, as long as it can renew the lease.
// Events, Deliveries, Triggers and Subscribe work in the same terms.
//
// It returns an error only if serve returns before its context ends: the error of serve, or lease.ErrStopped.
func (b *Bus) Work(ctx context.Context, serve func(ctx context.Context) error) error {
	return b.lease.Work(ctx, serve)
}

// progress records when each consumer of this process last moved.
type progress struct {
	mu     sync.Mutex
	gauges map[string]*gauge // by role; bounded by the shards
}

// gauge is one consumer's progress. Times are in nanoseconds since the epoch.
type gauge struct {
	owner  *progress
	name   string
	queued atomic.Int64 // messages that wait to be handed out
	move   atomic.Int64 // when a message was last taken or acknowledged, or none waited
	answer atomic.Int64 // when the server last answered
	// asks is true when the server is asked all the time, so that its silence means something. A reader by a cursor waits to be sent messages.
	asks bool
}

func newProgress() *progress { return &progress{gauges: map[string]*gauge{}} }

func (p *progress) start(r role) *gauge {
	g := &gauge{owner: p, name: r.name, asks: !r.logged()}
	g.moved()
	g.answered()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gauges[r.name] = g
	return g
}

func (g *gauge) stop() {
	g.owner.mu.Lock()
	defer g.owner.mu.Unlock()
	if g.owner.gauges[g.name] == g {
		delete(g.owner.gauges, g.name)
	}
}

func (g *gauge) moved()    { g.move.Store(time.Now().UnixNano()) }
func (g *gauge) answered() { g.answer.Store(time.Now().UnixNano()) }

func (g *gauge) waiting(n int) {
	if old := g.queued.Swap(int64(n)); n == 0 || int64(n) < old {
		g.moved()
	}
}

func (p *progress) check(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, g := range p.gauges {
		if idle := now.Sub(time.Unix(0, g.move.Load())); g.queued.Load() > 0 && idle > wedgedAfter {
			errs = append(errs, fmt.Errorf("%s has taken nothing for %s", g.name, idle.Truncate(time.Second)))
		}
		// The server answers every request in pullExpiry at the latest; a full queue sends no request.
		if silent := now.Sub(time.Unix(0, g.answer.Load())); g.asks && g.queued.Load() == 0 && silent > wedgedAfter {
			errs = append(errs, fmt.Errorf("%s has had no answer for %s", g.name, silent.Truncate(time.Second)))
		}
	}
	return errors.Join(errs...)
}
