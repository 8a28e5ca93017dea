package bus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/fair"
)

const (
	statsInterval = 2 * time.Second
	// tellInterval is the least time between two lines about streams that do not answer.
	tellInterval = time.Minute
	// goneAnswers is how many answers in a row must say that a stream does not exist before the bus is lost.
	goneAnswers = 3
)

// stats has the states of the streams, a few seconds old, with the bytes that this process added since.
type stats struct {
	bus *Bus

	mu       sync.Mutex
	states   map[string]jetstream.StreamState
	unread   uint64 // records in EVENTS that the router, or the subscriber, has not handled: the larger count
	answered time.Time
	misses   int   // answers in a row by which a stream does not exist
	missed   error // the last of them

	told time.Time // when the log last reported that streams do not answer; zero once they do. Only run's goroutine uses it

	unrouted atomic.Int64 // bytes of events published since the streams last answered
	queued   atomic.Int64 // bytes of deliveries put to wait since the streams last answered
	waiting  atomic.Int64 // the number of these
}

func newStats(b *Bus) *stats { return &stats{bus: b, states: map[string]jetstream.StreamState{}} }

func (s *stats) run(ctx context.Context) {
	for fair.Sleep(ctx, statsInterval) == nil {
		err := s.refresh(ctx)
		if err == nil {
			err = s.askBuckets(ctx)
		}
		s.note(err)
		if err == nil {
			err = s.bus.enforceQuotas(ctx)
		}
		if ctx.Err() == nil {
			s.tell(err)
		}
	}
}

// tell logs the beginning and the end of a time in which streams do not answer, and the present reason now and then between.
func (s *stats) tell(err error) {
	switch {
	case err != nil && time.Since(s.told) >= tellInterval:
		s.told = time.Now()
		s.bus.log.Warn("streams do not answer, trying again", "error", err)
	case err == nil && !s.told.IsZero():
		s.told = time.Time{}
		s.bus.log.Info("streams answer again")
	}
}

func (s *stats) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	states := make(map[string]jetstream.StreamState, len(allStreams))
	// Read before the streams are asked, and subtracted when all have answered: bytes published meanwhile count twice instead of not at all.
	published, queued, waiting, answered := s.unrouted.Load(), s.queued.Load(), s.waiting.Load(), s.bus.triggerQuotas.asked()
	for _, name := range allStreams {
		info, err := s.bus.streams[name].Info(ctx)
		if err != nil {
			return fmt.Errorf("read stream %s: %w", name, err)
		}
		if err := s.bus.sameStream(name, info); err != nil {
			return err
		}
		states[name] = info.State
	}
	unrouted, unread, err := s.bus.notDone(ctx, states[streamEvents])
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.states, s.unread, s.answered = states, max(unrouted, unread), time.Now()
	s.mu.Unlock()
	s.unrouted.Add(-published)
	s.queued.Add(-queued)
	s.waiting.Add(-waiting)
	answered()
	s.bus.metrics.observe(states, unrouted, unread)
	last := states[streamEvents].LastSeq
	if err := s.bus.durableEvents(ctx, last); err != nil {
		return err
	}
	s.bus.recent.note(last) // events whose acknowledgement was lost would otherwise be read only after later ones
	return nil
}

// askBuckets returns an error if a bucket does not answer. Nobody but this process can delete those of an embedded server.
func (s *stats) askBuckets(ctx context.Context) error {
	if s.bus.embedded != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	for bucket := range s.bus.buckets {
		name := bucketStream + bucket
		stream, err := s.bus.js.Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("read stream %s: %w", name, err)
		}
		if err := s.bus.sameStream(name, stream.CachedInfo()); err != nil {
			return err
		}
	}
	return nil
}

// errRemade says that a stream is not the one that this process found or made at its start.
var errRemade = errors.New("made again by another replica")

// sameStream returns errRemade if a stream is another one than at the start of this process.
func (b *Bus) sameStream(name string, info *jetstream.StreamInfo) error {
	if !info.Created.Equal(b.created[name]) {
		return fmt.Errorf("stream %s: %w", name, errRemade)
	}
	return nil
}

// note counts an answer by which a stream does not exist. In a cluster only the leader that knows all streams gives it.
func (s *stats) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, errRemade):
		s.misses, s.missed = goneAnswers, err
	case errors.Is(err, jetstream.ErrStreamNotFound):
		s.misses, s.missed = s.misses+1, err
	default:
		s.misses, s.missed = 0, nil
	}
}

// gone returns an error if a stream, or that of a bucket, does not exist any more: somebody deleted it, or the server lost its store. Its
// messages are lost. A start makes it anew, and sets the places of the readers right before anything is accepted. So a replica is lost as well
// when another one has made it anew.
func (s *stats) gone() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.misses < goneAnswers {
		return nil
	}
	return fmt.Errorf("deleted on the server, a start sets it up again: %w", s.missed)
}

// notDone returns how many events are beyond the cursor of the router, and beyond that of the subscriber.
func (b *Bus) notDone(ctx context.Context, state jetstream.StreamState) (unrouted, unread uint64, err error) {
	for role, count := range map[role]*uint64{routeRole(): &unrouted, subscribeRole(): &unread} {
		c, err := b.loadCursor(ctx, role)
		if err != nil {
			return 0, 0, err
		}
		*count = state.LastSeq - min(max(c.floor, state.FirstSeq-1), state.LastSeq)
	}
	return unrouted, unread, nil
}

// handled returns the last event up to which all were routed, and read for Receivers of type event.
func (s *stats) handled() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[streamEvents].LastSeq - s.unread
}

// state returns the state of a stream, and when the streams last answered.
func (s *stats) state(stream string) (state jetstream.StreamState, answered time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[stream], s.answered
}

const (
	// namespaceShare divides the budget of DELIVERIES: one namespace may fill the quotient.
	namespaceShare = 8
	// minQuota is how many deliveries of a namespace may wait however full the stream is.
	minQuota = 16
)

// Quota returns how many deliveries of one namespace, and how many bytes of them, DELIVERIES takes. Until it is half full only the bytes
// are bounded. Above that it takes as many average messages as are free. With such a threshold any number of floods together leave free
// space, since each is bounded by the space that is free.
func (b *Bus) Quota() (deliveries int, bytes int64) {
	state, _ := b.stats.state(streamDeliveries)
	used, budget := int64(state.Bytes)+b.stats.queued.Load(), b.opts.Budgets.Deliveries
	if used < budget/2 {
		return math.MaxInt, budget / namespaceShare
	}
	average := max(used/max(int64(state.Msgs)+b.stats.waiting.Load(), 1), 1)
	return max(minQuota, int(max(budget-used, 0)/average)), budget / namespaceShare
}

// checkEventsQuota returns ErrFull when EVENTS is three quarters full and more than half of its records were not handled. A flood, or a
// reader that makes no progress, must not make the stream discard unhandled events (invariant E2).
func (s *stats) checkEventsQuota() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.states[streamEvents]
	full := int64(state.Bytes)+s.unrouted.Load() > s.bus.opts.Budgets.Events/4*3
	if full && s.unread > state.Msgs/2 {
		return fmt.Errorf("events wait to be handled: %w", ErrFull)
	}
	return nil
}
