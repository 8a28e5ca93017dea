package bus

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const statsInterval = 2 * time.Second

// stats is what is known of the streams, a few seconds old, with what this process added since.
type stats struct {
	bus *Bus

	mu       sync.Mutex
	states   map[string]jetstream.StreamState
	unread   uint64 // records in EVENTS that were not routed
	answered time.Time

	unrouted atomic.Int64 // bytes of events published since the last refresh
	queued   atomic.Int64 // bytes of deliveries published since the last refresh
}

func newStats(b *Bus) *stats { return &stats{bus: b, states: map[string]jetstream.StreamState{}} }

func (s *stats) run(ctx context.Context) {
	for wait(ctx, statsInterval) == nil {
		if err := s.refresh(ctx); err != nil && ctx.Err() == nil {
			s.bus.log.Warn("streams do not answer", "error", err)
		}
	}
}

func (s *stats) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	states := make(map[string]jetstream.StreamState, len(allStreams))
	// Taken before the streams are asked: what is published meanwhile counts twice rather than never.
	s.unrouted.Store(0)
	s.queued.Store(0)
	for _, name := range allStreams {
		info, err := s.bus.streams[name].Info(ctx)
		if err != nil {
			return fmt.Errorf("read stream %s: %w", name, err)
		}
		states[name] = info.State
	}
	unread := uint64(0)
	// The consumer is made by the first owner; before that nothing was routed.
	if c, err := s.bus.streams[streamEvents].Consumer(ctx, consumerName(routeRole())); err == nil {
		info := c.CachedInfo()
		unread = info.NumPending + uint64(info.NumAckPending)
	} else {
		unread = states[streamEvents].Msgs
	}
	s.mu.Lock()
	s.states, s.unread, s.answered = states, unread, time.Now()
	s.mu.Unlock()
	if s.bus.metrics != nil {
		s.bus.metrics.observe(states, unread)
	}
	return nil
}

func (s *stats) age() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.answered)
}

// deliveries returns how much is in DELIVERIES.
func (s *stats) deliveries() (bytes, msgs int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.states[streamDeliveries]
	return int64(state.Bytes) + s.queued.Load(), int64(state.Msgs)
}

// eventsHaveRoom returns ErrFull when EVENTS is three quarters full and more than half of its records were not routed: a flood, or
// a router that stands still, must not make the stream forget what it owes (invariant E2).
func (s *stats) eventsHaveRoom() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.states[streamEvents]
	full := int64(state.Bytes)+s.unrouted.Load() > s.bus.opts.Budgets.Events/4*3
	if full && s.unread > state.Msgs/2 {
		return fmt.Errorf("events wait to be routed: %w", ErrFull)
	}
	return nil
}
