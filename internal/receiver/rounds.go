package receiver

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errRoundLost is what the others of a round get when its leader panicked.
var errRoundLost = errors.New("publishing ended without a result")

// rounds folds the publishes of one hook: whoever arrives while one is running shares the next one. A running publish is
// never joined, since its triggers may be applied already, and a webhook's request must be stamped no earlier than its arrival.
type rounds struct {
	mu   sync.Mutex
	busy bool
	next *round
}

// round is one publish that waits for the running one, and all who share it.
type round struct {
	turn   chan struct{} // closed when the leader, the first to arrive, may publish; nobody joins after that
	done   chan struct{} // closed when err is set
	newest time.Time
	err    error
}

// do publishes for a webhook accepted at the given time and reports whether it shared another's publish. It returns when that
// publish has returned. If ctx ends before, whoever only shares it leaves, so that a sender who hangs up holds nothing; whoever
// leads stays for the others. So publish, which is called with the leader's context, must be bounded in time and outlive it.
func (s *rounds) do(
	ctx context.Context, accepted time.Time, publish func(ctx context.Context, newest time.Time) error,
) (shared bool, err error) {
	s.mu.Lock()
	if !s.busy {
		s.busy = true
		s.mu.Unlock()
		defer s.hand()
		return false, publish(ctx, accepted)
	}
	r := s.next
	leads := r == nil
	if leads {
		r = &round{turn: make(chan struct{}), done: make(chan struct{}), err: errRoundLost}
		s.next = r
	}
	if accepted.After(r.newest) {
		r.newest = accepted
	}
	s.mu.Unlock()
	if !leads {
		select {
		case <-r.done:
			return true, r.err
		case <-ctx.Done():
			return true, context.Cause(ctx)
		}
	}
	<-r.turn
	defer s.hand()
	defer close(r.done)
	r.err = publish(ctx, r.newest)
	return false, r.err
}

// hand gives the turn to the round that waits, if there is one.
func (s *rounds) hand() {
	s.mu.Lock()
	r := s.next
	s.next = nil
	s.busy = r != nil
	s.mu.Unlock()
	if r != nil {
		close(r.turn)
	}
}
