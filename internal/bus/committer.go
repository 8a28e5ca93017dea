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

const (
	// maxRound is the most messages that go in one round. A round of more takes longer than it saves in syncs, and whoever comes
	// meanwhile waits for all of it.
	maxRound = 256
	// maxAside is how many messages go beside a round at a time. Each costs a sync of its own.
	maxAside = 2
)

// committer is the group commit of one stream. While one round is on its way to the disk, the messages that arrive wait, and go
// together as one atomic batch that the server syncs once.
//
// One namespace's messages are not waited for by another's (invariant T6): each has its turns in a round, and a message of a namespace
// that has nothing else to commit goes at once, beside the round on its way.
//
// A round is sealed before its first message is sent: nobody who calls later is acknowledged by it. The messages of a namespace reach
// the stream in the order of their calls. Memory is bounded by the callers, who all wait.
type committer struct {
	write func(ctx context.Context, msgs []*nats.Msg) []outcome
	work  *sync.WaitGroup
	// folded is told of every entry that is folded into another.
	folded func()

	mu          sync.Mutex
	lines       map[string]*line // of the namespaces that have something waiting or on its way
	first, last *line            // those that wait, in the order of their turns
	aside       int
	busy        bool
}

// entry is a message to commit.
type entry struct {
	msg *nats.Msg
	// body, if any, makes what msg carries, once it is sure to go: most of a flood is folded before.
	body      func() ([]byte, error)
	namespace string // whose turn it takes
	// fold makes the message stand for every other one of its subject that waits; of those the one with the newest time goes.
	fold bool
	at   time.Time
	// stored, if any, is told the sequence once the message is on disk, unless it was a duplicate. It must not block.
	stored func(seq uint64)
}

// place is an entry that waits, and what became of it when done is closed.
type place struct {
	entry
	line    *line
	callers int
	done    chan struct{}
	outcome
}

// line is what one namespace has to commit, in the order of its calls.
type line struct {
	namespace string
	places    []*place          // that wait
	foldable  map[string]*place // of places, by subject
	away      int               // messages on their way
	aside     bool              // beside a round: none may follow before it is back
	queued    bool
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
	p := c.enlist(ctx, e, true)
	c.mu.Unlock()
	return c.await(within, p)
}

// commitEach is commit of several entries. Its error is the first.
func (c *committer) commitEach(ctx context.Context, entries []entry) error {
	if len(entries) == 0 {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	places := make([]*place, len(entries))
	c.mu.Lock()
	for i, e := range entries {
		places[i] = c.enlist(ctx, e, len(entries) == 1)
	}
	c.mu.Unlock()
	var failed error
	for _, p := range places {
		if _, err := c.await(within, p); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// await returns what became of a place, or gives it up when ctx ends.
func (c *committer) await(ctx context.Context, p *place) (ack, error) {
	select {
	case <-p.done:
		return p.ack, p.err
	case <-ctx.Done():
		c.mu.Lock()
		p.callers--
		c.mu.Unlock()
		return ack{}, ctx.Err()
	}
}

// enlist adds e to its namespace's line, and sees that it goes; with single perhaps beside a round. What goes belongs to all its
// callers, so none of the callers' contexts may end it; publish has its own time-out.
func (c *committer) enlist(ctx context.Context, e entry, single bool) *place {
	l := c.lines[e.namespace]
	if l == nil {
		l = &line{namespace: e.namespace, foldable: map[string]*place{}}
		c.lines[e.namespace] = l
	}
	if p := l.foldable[e.msg.Subject]; p != nil && e.fold {
		if e.at.After(p.at) {
			p.entry = e
		}
		p.callers++
		c.folded()
		return p
	}
	p := &place{entry: e, line: l, callers: 1, done: make(chan struct{})}
	if single && c.busy && c.aside < maxAside && l.away == 0 && len(l.places) == 0 {
		c.aside++
		l.away, l.aside = 1, true
		c.work.Go(func() { c.commitAside(context.WithoutCancel(ctx), p) })
		return p
	}
	l.places = append(l.places, p)
	if e.fold {
		l.foldable[e.msg.Subject] = p
	}
	c.queue(ctx, l)
	return p
}

// queue gives the line, if it has something that may go, its turn after all others.
func (c *committer) queue(ctx context.Context, l *line) {
	if l.queued || l.aside || len(l.places) == 0 {
		return
	}
	l.queued = true
	if c.last == nil {
		c.first = l
	} else {
		c.last.next = l
	}
	c.last = l
	if !c.busy {
		c.busy = true
		c.work.Go(func() { c.commitAll(context.WithoutCancel(ctx)) })
	}
}

// seal takes out what goes in the next round, one of each namespace in turn; nothing if nobody waits. What all callers have given up
// is left out.
func (c *committer) seal(ctx context.Context) (round []*place) {
	for size := 0; c.first != nil && len(round) < maxRound; {
		l := c.first
		p := l.places[0]
		if p.callers > 0 {
			if size += p.msg.Size(); size > maxBatchBytes && len(round) > 0 {
				break
			}
			round = append(round, p)
			l.away++
		}
		l.places = l.places[1:]
		if p.fold {
			delete(l.foldable, p.msg.Subject)
		}
		c.first, l.next, l.queued = l.next, nil, false
		if c.first == nil {
			c.last = nil
		}
		c.queue(ctx, l)
		c.forget(l)
	}
	return round
}

// forget removes the line once it has nothing to commit.
func (c *committer) forget(l *line) {
	if l.away == 0 && len(l.places) == 0 {
		delete(c.lines, l.namespace)
	}
}

// commitAll commits rounds until none waits.
func (c *committer) commitAll(ctx context.Context) {
	for {
		c.mu.Lock()
		round := c.seal(ctx)
		c.busy = len(round) > 0
		c.mu.Unlock()
		if len(round) == 0 {
			return
		}
		began := time.Now()
		c.send(ctx, round)
		c.mu.Lock()
		for _, p := range round {
			p.line.away--
			c.forget(p.line)
		}
		c.mu.Unlock()
		if len(round) > 1 {
			// The callers that have just been answered are about to come back. Without a pause they would miss the next round by
			// microseconds, and rounds would carry half of the callers each.
			_ = wait(ctx, min(time.Since(began)/gatherShare, gatherMax))
		}
	}
}

// commitAside commits one message beside the rounds.
func (c *committer) commitAside(ctx context.Context, p *place) {
	c.send(ctx, []*place{p})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aside--
	p.line.away, p.line.aside = 0, false
	c.queue(ctx, p.line)
	c.forget(p.line)
}

// send writes the messages of the places and answers their callers.
func (c *committer) send(ctx context.Context, places []*place) {
	msgs, written := make([]*nats.Msg, 0, len(places)), places[:0:0]
	for _, p := range places {
		if p.body != nil {
			if p.msg.Data, p.err = p.body(); p.err != nil {
				close(p.done)
				continue
			}
		}
		msgs, written = append(msgs, p.msg), append(written, p)
	}
	for i, outcome := range c.write(ctx, msgs) {
		written[i].outcome = outcome
		if stored := written[i].stored; stored != nil && outcome.err == nil && !outcome.ack.Duplicate {
			stored(outcome.ack.Seq)
		}
		close(written[i].done)
	}
}
