package bus

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"notifier/internal/fair"
)

// After a round with company the committer waits for the next one to fill: a fraction of what the round took, so that it costs
// little, and no longer than a person at a terminal could notice.
const (
	gatherShare = 8
	gatherMax   = 2 * time.Millisecond
)

// maxRound is the most messages that go in one round. More would save no syncs to speak of, and what comes meanwhile waits for all of it.
const maxRound = 128

// committer is the group commit of one stream. While one round is on its way to the disk, the messages that arrive wait, and go
// together with one sync.
//
// One namespace's messages do not wait for all of another's (invariant T6): namespaces take turns, so a message that is its namespace's
// only one waits for the round on its way and goes with the next.
//
// A round is sealed before its first message is sent: nobody who calls later is acknowledged by it. The messages of a namespace reach
// the stream in the order of their calls. Memory is bounded by the callers, who all wait.
type committer struct {
	write func(ctx context.Context, msgs []*nats.Msg) []outcome
	work  *sync.WaitGroup
	// coalesced is told of every entry that is coalesced with another.
	coalesced func()
	// pause, if any, is how long the next round has to fill after every round. Its callers can wait, and what waits goes in fewer messages.
	pause time.Duration
	// committed, if any, is called after every round, after its entries and before their callers.
	committed func()

	mu      sync.Mutex
	waiting *fair.Queue[*pending]
	latest  map[string]*pending // of waiting, the last that others may be coalesced with, by subject
	busy    bool
}

// entry is a message to commit.
type entry struct {
	msg *nats.Msg
	// body, if any, makes what msg carries, once it is sure to go: most of a flood is coalesced before.
	body      func() ([]byte, error)
	namespace string // whose turn it takes
	// coalesce, if any, is asked to have an entry of the same subject that waits stand for this one as well. It reports whether it does.
	coalesce func(waiting *entry) bool
	at       time.Time // when a trigger was accepted
	// stored, if any, is told the sequence once the message is on disk, unless it was a duplicate. It must not block.
	stored func(seq uint64)
}

// pending is an entry that waits, and what became of it when done is closed.
type pending struct {
	entry
	callers int
	done    chan struct{}
	outcome
}

func pendingNamespace(p *pending) string { return p.namespace }

// newCommitter commits to one stream by write. Its goroutine runs while there is something to commit, and is waited for in Close.
func newCommitter(b *Bus, coalesced func(), write func(ctx context.Context, msgs []*nats.Msg) []outcome) *committer {
	return &committer{
		write: write, work: &b.work, coalesced: coalesced,
		waiting: fair.NewQueue(pendingNamespace), latest: map[string]*pending{},
	}
}

// commit returns when e, or an entry that e was coalesced with, is written, or with an error within publishTimeout, also when two
// writes one after the other take longer than that.
func (c *committer) commit(ctx context.Context, e entry) (ack, error) {
	c.mu.Lock()
	p := c.enqueue(ctx, e)
	c.mu.Unlock()
	late := time.NewTimer(publishTimeout) // costs less than a context, and nothing is called with one
	defer late.Stop()
	return c.await(ctx, late.C, p)
}

// commitEach is commit of several entries. Its error is the first.
func (c *committer) commitEach(ctx context.Context, entries []entry) error {
	if len(entries) == 0 {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	waiting := make([]*pending, len(entries))
	c.mu.Lock()
	for i, e := range entries {
		waiting[i] = c.enqueue(ctx, e)
	}
	c.mu.Unlock()
	var failed error
	for _, p := range waiting {
		if _, err := c.await(within, nil, p); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// await returns what became of an entry, or gives it up when ctx ends or it is late.
func (c *committer) await(ctx context.Context, late <-chan time.Time, p *pending) (ack, error) {
	var err error
	select {
	case <-p.done:
		return p.ack, p.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-late:
		err = context.DeadlineExceeded
	}
	c.mu.Lock()
	p.callers--
	c.mu.Unlock()
	return ack{}, err
}

// enqueue adds e to what waits, and sees that it goes. What goes belongs to all its callers, so none of the callers' contexts
// may end it; publish has its own time-out.
func (c *committer) enqueue(ctx context.Context, e entry) *pending {
	if e.coalesce != nil {
		if p := c.latest[e.msg.Subject]; p != nil && e.coalesce(&p.entry) {
			p.callers++
			c.coalesced()
			return p
		}
	}
	p := &pending{entry: e, callers: 1, done: make(chan struct{})}
	c.waiting.Push(p)
	if e.coalesce != nil {
		c.latest[e.msg.Subject] = p
	}
	if !c.busy {
		c.busy = true
		c.work.Go(func() { c.commitAll(context.WithoutCancel(ctx)) })
	}
	return p
}

// seal takes out what goes in the next round, one of each namespace in turn; nothing if nobody waits. What all callers have given up
// is left out.
func (c *committer) seal() (round []*pending) {
	for size := 0; len(round) < maxRound; {
		p, ok := c.waiting.Peek()
		if !ok {
			break
		}
		if p.callers > 0 {
			if size += p.msg.Size(); size > maxBatchBytes && len(round) > 0 {
				break
			}
			round = append(round, p)
		}
		c.waiting.Pop()
		if c.latest[p.msg.Subject] == p {
			delete(c.latest, p.msg.Subject)
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
		began := time.Now()
		c.send(ctx, round)
		switch {
		case c.pause > 0:
			_ = fair.Sleep(ctx, c.pause)
		case len(round) > 1:
			// The callers that have just been answered are about to come back. Without a pause they would miss the next round by
			// microseconds, and rounds would carry half of the callers each.
			_ = fair.Sleep(ctx, min(time.Since(began)/gatherShare, gatherMax))
		}
	}
}

// send writes a round and answers its callers.
func (c *committer) send(ctx context.Context, round []*pending) {
	msgs, written := make([]*nats.Msg, 0, len(round)), make([]*pending, 0, len(round))
	for _, p := range round {
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
	}
	if c.committed != nil {
		c.committed()
	}
	for _, p := range written {
		close(p.done)
	}
}
