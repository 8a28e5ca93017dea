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

// maxRound is the most messages that go in one round. A round of more takes longer than it saves in syncs, and whoever comes meanwhile
// waits for all of it.
const maxRound = 256

// committer is the group commit of one stream. While one round is on its way to the disk, the messages that arrive wait, and go
// together as one atomic batch that the server syncs once.
//
// Namespaces have their turns in a round (invariant T6): of a namespace with little to commit nobody waits for more than the round on
// its way and the next one, however much others have.
//
// A round is sealed before its first message is sent: nobody who calls later is acknowledged by it. Memory is bounded by the
// callers, who all wait.
type committer struct {
	write func(ctx context.Context, msgs []*nats.Msg) []outcome
	work  *sync.WaitGroup
	// folded is told of every entry that is folded into another.
	folded func()

	mu          sync.Mutex
	lines       map[string]*line // of the namespaces that have something waiting
	first, last *line            // the same, in the order of their turns
	busy        bool
}

// entry is a message to commit.
type entry struct {
	msg       *nats.Msg
	namespace string // whose turn it takes
	// fold makes the message stand for every other one of its subject that waits; of those the one with the newest time goes.
	fold bool
	at   time.Time
}

// place is an entry that waits, and what became of it when done is closed.
type place struct {
	entry
	callers int
	done    chan struct{}
	outcome
}

// line is what one namespace has waiting, in the order of its calls.
type line struct {
	namespace string
	places    []*place
	foldable  map[string]*place // by subject
	next      *line
}

// newCommitter commits to one stream. Its goroutine runs while there is something to commit, and is waited for in Close.
func newCommitter(b *Bus, stream string) *committer {
	return &committer{
		write: func(ctx context.Context, msgs []*nats.Msg) []outcome { return b.publishAll(ctx, stream, msgs) },
		work:  &b.work, folded: b.metrics.folded.Inc,
		lines: map[string]*line{},
	}
}

// commit returns when e, or an entry that e was folded with, is on disk, or with an error within publishTimeout, also when two
// writes one after the other take longer than that.
func (c *committer) commit(ctx context.Context, e entry) (ack, error) {
	within, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	c.mu.Lock()
	p := c.enlist(e)
	if !c.busy {
		c.busy = true
		// The rounds belong to all their callers, so none of the callers' contexts may end them; publish has its own time-out.
		c.work.Go(func() { c.commitAll(context.WithoutCancel(ctx)) })
	}
	c.mu.Unlock()
	select {
	case <-p.done:
		return p.ack, p.err
	case <-within.Done():
		c.mu.Lock()
		p.callers--
		c.mu.Unlock()
		return ack{}, within.Err()
	}
}

// enlist adds e to its namespace's line.
func (c *committer) enlist(e entry) *place {
	l := c.lines[e.namespace]
	if l == nil {
		l = &line{namespace: e.namespace, foldable: map[string]*place{}}
		c.lines[e.namespace] = l
		c.queue(l)
	}
	if p := l.foldable[e.msg.Subject]; p != nil && e.fold {
		if e.at.After(p.at) {
			p.entry = e
		}
		p.callers++
		c.folded()
		return p
	}
	p := &place{entry: e, callers: 1, done: make(chan struct{})}
	l.places = append(l.places, p)
	if e.fold {
		l.foldable[e.msg.Subject] = p
	}
	return p
}

// queue gives the line its turn after all others.
func (c *committer) queue(l *line) {
	if c.last == nil {
		c.first = l
	} else {
		c.last.next = l
	}
	c.last = l
}

// seal takes out what goes in the next round, one of each namespace in turn; nothing if nobody waits. What all callers have given up
// is left out.
func (c *committer) seal() (round []*place) {
	for size := 0; c.first != nil && len(round) < maxRound; {
		l := c.first
		p := l.places[0]
		if p.callers > 0 {
			if size += p.msg.Size(); size > maxBatchBytes && len(round) > 0 {
				break
			}
			round = append(round, p)
		}
		l.places = l.places[1:]
		if p.fold {
			delete(l.foldable, p.msg.Subject)
		}
		c.first, l.next = l.next, nil
		if c.first == nil {
			c.last = nil
		}
		if len(l.places) > 0 {
			c.queue(l)
		} else {
			delete(c.lines, l.namespace)
		}
	}
	return round
}

// commitAll commits rounds until none waits.
func (c *committer) commitAll(ctx context.Context) {
	for {
		c.mu.Lock()
		round := c.seal()
		c.busy = len(round) > 0
		c.mu.Unlock()
		if len(round) == 0 {
			return
		}
		msgs := make([]*nats.Msg, len(round))
		for i, p := range round {
			msgs[i] = p.msg
		}
		began := time.Now()
		for i, outcome := range c.write(ctx, msgs) {
			round[i].outcome = outcome
			close(round[i].done)
		}
		if len(msgs) > 1 {
			// The callers that have just been answered are about to come back. Without a pause they would miss the next round by
			// microseconds, and rounds would carry half of the callers each.
			_ = wait(ctx, min(time.Since(began)/gatherShare, gatherMax))
		}
	}
}
