package bus

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// After a round with company the committer waits for the next one to fill: a fraction of what the round took, so that it costs
// little, and no longer than a person at a terminal could notice.
const (
	gatherShare = 8
	gatherMax   = 2 * time.Millisecond
)

// committer is the group commit of one stream. While one round is on its way to the disk, the messages that arrive gather in
// the next one, which goes as one atomic batch that the server syncs once. So a caller waits for at most two syncs, however
// many callers there are.
//
// A round is sealed before its first message is sent: nobody who calls later is acknowledged by it. Memory is bounded by the
// callers, who all wait.
type committer struct {
	write func(ctx context.Context, msgs []*nats.Msg) []outcome
	work  *sync.WaitGroup
	// folded is told of every entry that is folded into another.
	folded func()

	mu     sync.Mutex
	rounds []*round // in the order they go out; the last one is open, what has been taken out is sealed
	busy   bool
}

// entry is a message to commit.
type entry struct {
	msg *nats.Msg
	// fold makes the message stand for every other one of its subject in the round; of those the one with the newest time goes.
	fold bool
	at   time.Time
}

// round is what one commit will carry.
type round struct {
	places   map[string]int // of foldable entries, by subject
	entries  []entry
	outcomes []outcome
	done     chan struct{}
}

// newCommitter commits to one stream. Its goroutine runs while there is something to commit, and is waited for in Close.
func newCommitter(b *Bus, stream string) *committer {
	return &committer{
		write: func(ctx context.Context, msgs []*nats.Msg) []outcome { return b.publishAll(ctx, stream, msgs) },
		work:  &b.work, folded: b.metrics.folded.Inc,
	}
}

// commit returns when e, or an entry that e was folded with, is on disk, or with an error within publishTimeout, also when two
// writes one after the other take longer than that.
func (c *committer) commit(ctx context.Context, e entry) (ack, error) {
	within, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	c.mu.Lock()
	r, place := c.enlist(e)
	if !c.busy {
		c.busy = true
		// The rounds belong to all their callers, so none of the callers' contexts may end them; publish has its own time-out.
		c.work.Go(func() { c.commitAll(context.WithoutCancel(ctx)) })
	}
	c.mu.Unlock()
	select {
	case <-r.done:
		return r.outcomes[place].ack, r.outcomes[place].err
	case <-within.Done():
		return ack{}, within.Err()
	}
}

// enlist adds e to the open round. A full round is followed by another one.
func (c *committer) enlist(e entry) (*round, int) {
	var r *round
	if n := len(c.rounds); n > 0 {
		r = c.rounds[n-1]
	}
	if r != nil && e.fold {
		if place, found := r.places[e.msg.Subject]; found {
			if e.at.After(r.entries[place].at) {
				r.entries[place] = e
			}
			c.folded()
			return r, place
		}
	}
	if r == nil || len(r.entries) == maxBatch {
		r = &round{places: map[string]int{}, done: make(chan struct{})}
		c.rounds = append(c.rounds, r)
	}
	if e.fold {
		r.places[e.msg.Subject] = len(r.entries)
	}
	r.entries = append(r.entries, e)
	return r, len(r.entries) - 1
}

// commitAll commits rounds until none waits.
func (c *committer) commitAll(ctx context.Context) {
	for {
		c.mu.Lock()
		if len(c.rounds) == 0 {
			c.busy = false
			c.mu.Unlock()
			return
		}
		r := c.rounds[0]
		c.rounds = c.rounds[1:]
		c.mu.Unlock()
		msgs := make([]*nats.Msg, len(r.entries))
		for i, e := range r.entries {
			msgs[i] = e.msg
		}
		began := time.Now()
		r.outcomes = c.write(ctx, msgs)
		close(r.done)
		if len(msgs) > 1 {
			// The callers that have just been answered are about to come back. Without a pause they would miss the next round by
			// microseconds, and rounds would carry half of the callers each.
			_ = wait(ctx, min(time.Since(began)/gatherShare, gatherMax))
		}
	}
}
