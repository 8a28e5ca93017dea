package bus

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"notifier/internal/fair"
)

// After a round of several messages, or the sync of several, the committer waits for the next one to fill. It waits for a fraction of the time
// that the last one took, so that the wait costs little, and for gatherMax at most, which a person at a terminal does not notice.
const (
	gatherShare = 8
	gatherMax   = 2 * time.Millisecond
)

// maxRound is the most messages of one round. More would save hardly any syncs, and messages that arrive meanwhile wait for all of it.
//
// A remote server may sync each message on a slow disk. Rounds that it does not answer in time would wait for each other there, and none would
// ever be answered in time. So a round after one that takes longer than roundTime is half as large, or as large as the server does in
// roundTime if that is less, down to minRound.
const (
	minRound  = 8
	maxRound  = 128
	roundTime = time.Second
	// maxUnconfirmed is how many messages may be written and not confirmed: a disk that is too slow is not given more meanwhile.
	maxUnconfirmed = 4 * maxRound
)

// committer is the group commit of one stream. While one round is being written, the messages that arrive wait, and are then written
// together. With confirm, rounds are written while earlier ones are synced, and one sync confirms all that were written before it.
//
// One namespace's messages do not wait for all of another's (invariant T6): namespaces take turns. So a message that is its namespace's
// only one waits for the current round and is in the next.
//
// A round lasts until the server has answered, also when its callers have given up. So the outcome of each message becomes known, and a server
// that is late is not given more meanwhile.
//
// A round is sealed before its first message is sent: it acknowledges no later caller. The messages of a namespace are in rounds in the order
// of their calls, and those of a subject are so in the stream (see publishAll). Memory is bounded by the number of waiting callers.
type committer struct {
	write func(ctx context.Context, msgs []*nats.Msg) []outcome
	// confirm, if any, is the second half of write: it returns when the messages that write stored are on disk, and sets the error of those
	// that are not. The entries' stored is called before it, and their callers are answered after it. It is called for one round or more.
	confirm func(ctx context.Context, out []outcome)
	work    *sync.WaitGroup
	// coalesced, if any, is called for every entry that is coalesced with another.
	coalesced func()
	// pause, if any, is the wait after every round for the next one to fill. It is for callers that can wait, and makes fewer, larger
	// messages.
	pause time.Duration
	// announce, if any, is called once for a round, after write and the stored of its entries.
	announce func()

	mu      sync.Mutex
	waiting *fair.Queue[*pending]
	latest  map[string]*pending // the last of waiting that others may be coalesced with, by subject
	busy    bool
	// took is the time from the seal of the last round until its callers were answered.
	took time.Duration

	// written are the messages that were written and are not yet being confirmed. confirming says that confirmAll runs.
	written    []*pending
	confirming bool
	// unconfirmed bounds the messages that are written and not confirmed.
	unconfirmed *semaphore.Weighted

	// most is the bound on the messages of the next round, least the lowest bound. Only commitAll uses them.
	most, least int
}

// entry is a message to commit.
type entry struct {
	msg *nats.Msg
	// body, if any, makes the body of msg when its round is sent: most messages of a flood are coalesced before that.
	body      func() ([]byte, error)
	namespace string // whose turn it takes
	// coalesce, if any, merges this entry into a waiting one of the same subject, and reports whether it did.
	coalesce func(waiting *entry) bool
	at       time.Time // when a trigger was accepted
	// stored, if any, is called with the server's answer once write has returned, unless the message failed. It must not block.
	stored func(a jetstream.PubAck)
}

// pending is an entry that waits, with its outcome once done is closed.
type pending struct {
	entry
	callers int
	since   time.Time // of the last call
	sealed  time.Time
	done    chan struct{}
	outcome
}

func pendingNamespace(p *pending) string { return p.namespace }

// newCommitter returns a committer that writes to one stream by write. Its goroutine runs while entries wait, and Close waits for it.
func newCommitter(b *Bus, write func(ctx context.Context, msgs []*nats.Msg) []outcome) *committer {
	c := &committer{
		write: write, work: &b.work,
		waiting: fair.NewQueue(pendingNamespace), latest: map[string]*pending{}, most: maxRound, least: minRound,
		unconfirmed: semaphore.NewWeighted(maxUnconfirmed),
	}
	if b.embedded != nil {
		c.least = maxRound // it is as fast with many as with one
	}
	return c
}

// commit returns when e, or an entry that e was coalesced with, is written. It returns an error within publishTimeout, also when two
// consecutive writes take longer than that.
func (c *committer) commit(ctx context.Context, e entry) (jetstream.PubAck, error) {
	c.mu.Lock()
	p := c.enqueue(ctx, e)
	c.mu.Unlock()
	late := time.NewTimer(publishTimeout) // costs less than a context, and nothing is called with one
	defer late.Stop()
	return c.await(ctx, late.C, p)
}

// commitEach commits several entries, and returns the first error.
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

// await returns the outcome of an entry, or gives it up when ctx ends or late fires.
func (c *committer) await(ctx context.Context, late <-chan time.Time, p *pending) (jetstream.PubAck, error) {
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
	return jetstream.PubAck{}, err
}

// enqueue adds e to the waiting entries and starts commitAll unless it runs. A round belongs to all its callers, so none of their contexts
// may end it; publish has its own time-out.
func (c *committer) enqueue(ctx context.Context, e entry) *pending {
	if e.coalesce != nil {
		if p := c.latest[e.msg.Subject]; p != nil && e.coalesce(&p.entry) {
			p.callers, p.since = p.callers+1, time.Now()
			if c.coalesced != nil {
				c.coalesced()
			}
			return p
		}
	}
	p := &pending{entry: e, callers: 1, since: time.Now(), done: make(chan struct{})}
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

// seal removes and returns the entries of the next round, one of each namespace in turn; none if none waits. Entries that all callers have
// given up are left out, and so are those that wait for so long that their callers would give them up before the end of the round.
func (c *committer) seal() (round []*pending) {
	now := time.Now()
	within := publishTimeout - min(c.took, publishTimeout/2)
	for size := 0; len(round) < c.most; {
		p, ok := c.waiting.Peek()
		if !ok {
			break
		}
		if p.callers > 0 && now.Sub(p.since) < within {
			if size += p.msg.Size(); size > maxBatchBytes && len(round) > 0 {
				break
			}
			p.sealed = now
			round = append(round, p)
		} else {
			p.err = context.DeadlineExceeded
			close(p.done)
		}
		c.waiting.Pop()
		if c.latest[p.msg.Subject] == p {
			delete(c.latest, p.msg.Subject)
		}
	}
	return round
}

// commitAll commits rounds until no entry waits.
func (c *committer) commitAll(ctx context.Context) {
	for {
		round := c.nextRound(ctx)
		if len(round) == 0 {
			return
		}
		began := time.Now()
		c.send(ctx, round)
		took := time.Since(began)
		c.adapt(len(round), took)
		switch {
		case c.pause > 0:
			_ = fair.Sleep(ctx, c.pause)
		case len(round) > 1:
			gather(ctx, took)
		}
	}
}

// nextRound seals the next round when its messages may be written.
func (c *committer) nextRound(ctx context.Context) []*pending {
	if c.confirm != nil {
		_ = c.unconfirmed.Acquire(ctx, maxRound) // ctx does not end
	}
	c.mu.Lock()
	round := c.seal()
	c.busy = len(round) > 0
	c.mu.Unlock()
	c.release(maxRound - len(round))
	return round
}

// release gives back the room of messages that are confirmed, or are not to be.
func (c *committer) release(messages int) {
	if c.confirm != nil {
		c.unconfirmed.Release(int64(messages))
	}
}

// gather waits for the callers that have just been answered: they are about to call again. Without a pause they would miss the next round, or
// sync, by microseconds, and each would carry half of the callers.
func gather(ctx context.Context, took time.Duration) {
	_ = fair.Sleep(ctx, min(took/gatherShare, gatherMax))
}

// adapt sets the size of the next round by the time that one of so many messages took.
func (c *committer) adapt(messages int, took time.Duration) {
	switch {
	case took > roundTime:
		inTime := int(int64(messages) * int64(roundTime) / int64(took))
		c.most = max(min(messages/2, inTime), c.least)
	case took < roundTime/2 && messages == c.most:
		c.most = min(2*c.most, maxRound)
	}
}

// send writes a round. It answers its callers, or leaves that to confirmAll.
func (c *committer) send(ctx context.Context, round []*pending) {
	msgs, written := make([]*nats.Msg, 0, len(round)), make([]*pending, 0, len(round))
	for _, p := range round {
		if p.body != nil {
			if p.msg.Data, p.err = p.body(); p.err != nil {
				c.release(1)
				close(p.done)
				continue
			}
		}
		msgs, written = append(msgs, p.msg), append(written, p)
	}
	for i, o := range c.write(ctx, msgs) {
		p := written[i]
		if p.outcome = o; p.stored != nil && o.err == nil {
			p.stored(o.ack)
		}
	}
	if c.announce != nil {
		c.announce()
	}
	if c.confirm == nil {
		c.answer(written)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written = append(c.written, written...)
	if !c.confirming {
		c.confirming = true
		c.work.Go(func() { c.confirmAll(ctx) })
	}
}

// confirmAll confirms what is written until nothing waits for it.
func (c *committer) confirmAll(ctx context.Context) {
	for {
		c.mu.Lock()
		written := c.written
		c.written = nil
		c.confirming = len(written) > 0
		c.mu.Unlock()
		if len(written) == 0 {
			return
		}
		began := time.Now()
		out := make([]outcome, len(written))
		for i, p := range written {
			out[i] = p.outcome
		}
		c.confirm(ctx, out)
		for i, p := range written {
			p.outcome = out[i]
		}
		c.answer(written)
		c.release(len(written))
		if len(written) > 1 {
			gather(ctx, time.Since(began))
		}
	}
}

// answer answers the callers of messages.
func (c *committer) answer(written []*pending) {
	if len(written) > 0 {
		c.mu.Lock()
		c.took = time.Since(written[0].sealed)
		c.mu.Unlock()
	}
	for _, p := range written {
		close(p.done)
	}
}
