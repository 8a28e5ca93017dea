package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
)

// The kinds of roles. A role is one consumer, and has one owner in the fleet.
const (
	kindRoute   = "route"
	kindDeliver = "deliver"
	kindTrigger = "trigger"
	// kindSubscribe reads EVENTS for Receivers of type event.
	kindSubscribe = "subscribe"
)

const (
	ownRetry    = 250 * time.Millisecond
	ownBackoff  = time.Second
	releaseTime = 2 * time.Second
)

// poisoning is when a message counts as one that kills whoever handles it.
type poisoning struct {
	// cautiousAfter is after how many deaths at one and the same message the owner hands out one message at a time, and
	// maxDeliveries how often a message may be handed out without an outcome before it is dead-lettered.
	cautiousAfter, maxDeliveries int
}

// defaultPoisoning has large numbers: who is killed from outside again and again, before anything could be settled, must not lose
// what was promised, and a handler that panics is caught long before it comes to this.
var defaultPoisoning = poisoning{cautiousAfter: 50, maxDeliveries: 100}

// role is one consumer and what it reads.
type role struct {
	kind, name    string
	shard         int
	stream        string
	filter        string
	maxAckPending int
	// headersOnly has messages handed out without their bodies.
	headersOnly bool
	// logged says that there is no consumer: the stream is read by a cursor.
	logged bool
	// fromNow has the consumer begin with what is published after it was first made, not with what the stream has.
	fromNow bool
}

// lease is the entry of a role in the bucket of owners. It is taken by compare-and-set when it is free or its holder is dead,
// so a role has one owner even while two replicas see different members. It also remembers deaths, because the reset of a
// consumer forgets how often a message was handed out.
type lease struct {
	Member string `json:"member"`
	// Deaths counts the owners in a row that died at one acknowledgement floor, Floor.
	Floor  uint64 `json:"floor,omitempty"`
	Deaths int    `json:"deaths,omitempty"`
	// Suspect is the message that was handed out alone after several deaths, Tries how often.
	Suspect uint64 `json:"suspect,omitempty"`
	Tries   int    `json:"tries,omitempty"`

	revision uint64
}

// tenure is one owner's time with a role.
type tenure struct {
	bus      *Bus
	role     role
	lease    lease
	consumer string
	// cursor is that of a role without a consumer.
	cursor *cursor
	// last is the stream's last sequence at the start: what is not newer may have been handled before.
	last uint64
	// term is the replica's term of membership that the role was taken in, and ends with.
	term uint64
}

// owned reports whether nobody else may have taken the role over yet.
func (t *tenure) owned() bool { return t.bus.members.holds(t.term) }

// own calls serve whenever this replica should own the role and no other living replica does, until ctx ends. The context of
// serve ends with the ownership, and carries its fence.
func (b *Bus) own(ctx context.Context, r role, serve func(ctx context.Context, t *tenure) error) {
	log := b.log.With("role", r.name)
	// named says that the bucket may name this replica as the owner although it does not serve the role: a write failed, or its
	// answer was lost. As long as the replica lives nobody else would take the role.
	named := false
	for ctx.Err() == nil {
		owner, changed := b.members.owner(r.kind, r.name)
		if owner != b.members.self {
			if named {
				if err := b.disown(ctx, r); err != nil {
					log.Warn("cannot give a role back, will retry", "error", err)
					_ = wait(ctx, ownRetry)
					continue
				}
				named = false
			}
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		if !b.members.holds(b.members.term.Load().number) {
			_ = wait(ctx, ownRetry) // what would be taken over now would end at once
			continue
		}
		t, err := b.takeOver(ctx, r)
		named = named || err != nil
		if err != nil || t == nil {
			if err != nil && ctx.Err() == nil {
				log.Warn("cannot take a role over", "error", err)
			}
			_ = wait(ctx, ownRetry)
			continue
		}
		// There are some thirty, and as many lines at every start.
		log.Debug("role taken over", "deaths", t.lease.Deaths)
		b.roles.Add(1)
		err = b.reign(ctx, t, serve)
		b.roles.Add(-1)
		named = err != nil
		if errors.Is(err, errInterrupted) {
			log.Info("role begun anew", "reason", err)
			continue
		}
		if err != nil && ctx.Err() == nil {
			log.Error("role given up", "error", err)
			_ = wait(ctx, ownBackoff)
		}
	}
}

// serveOne offers to serve a kind's only role and serves it whenever this replica owns it, until ctx ends.
func (b *Bus) serveOne(ctx context.Context, r role, serve func(ctx context.Context, t *tenure) error) {
	b.offering(ctx, r.kind, func() { b.own(ctx, r, serve) })
}

// offering calls serve while this replica offers to serve roles of a kind. The offer ends with ctx already, so that the others may
// take over what serve has drained while it drains the rest.
func (b *Bus) offering(ctx context.Context, kind string, serve func()) {
	withdraw := b.members.offer(kind)
	stop := context.AfterFunc(ctx, withdraw)
	serve()
	if stop() {
		withdraw()
	}
}

// reign serves until the ownership ends, and gives the role back.
func (b *Bus) reign(ctx context.Context, t *tenure, serve func(ctx context.Context, t *tenure) error) error {
	inner, cancel := context.WithCancel(event.WithFence(ctx, t.owned))
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer cancel()
		for {
			owner, changed := b.members.owner(t.role.kind, t.role.name)
			if owner != b.members.self || !t.owned() {
				return
			}
			select {
			case <-inner.Done():
				return
			case <-changed:
			}
		}
	}()
	err := serve(inner, t)
	cancel()
	<-watched
	done, cancelDone := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancelDone()
	return errors.Join(err, t.release(done))
}

// takeOver makes this replica the owner. It returns nil without an error while another living replica is.
func (b *Bus) takeOver(ctx context.Context, r role) (*tenure, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	number := b.members.term.Load().number // before the lease is read: what is taken belongs to a term in which nobody else did
	old, err := b.readLease(ctx, r)
	if err != nil {
		return nil, err
	}
	if old.Member != "" && old.Member != b.members.self && b.members.alive(old.Member) {
		return nil, nil
	}
	t := &tenure{bus: b, role: r, lease: old, consumer: consumerName(r), term: number}
	t.lease.Member = b.members.self
	if err := t.save(ctx); err != nil {
		return nil, fmt.Errorf("take lease: %w", err)
	}
	floor, err := t.floor(ctx)
	if err != nil {
		return nil, err
	}
	died := old.Member != "" && old.Member != b.members.self
	if err := t.countDeaths(ctx, floor, died); err != nil {
		return nil, err
	}
	if err := t.startOver(ctx, b.streams[r.stream]); err != nil {
		return nil, err
	}
	return t, nil
}

// floor returns the sequence up to which all is done.
func (t *tenure) floor(ctx context.Context) (uint64, error) {
	if t.role.logged {
		var err error
		if t.cursor, err = t.bus.loadCursor(ctx); err != nil {
			return 0, err
		}
		return t.cursor.floor, nil
	}
	c, err := t.bus.setUpConsumer(ctx, t.role)
	if err != nil {
		return 0, fmt.Errorf("set up consumer: %w", err)
	}
	return c.CachedInfo().AckFloor.Stream, nil
}

// startOver makes the consumer hand out everything unsettled at once and in order. Without it what the last owner held would
// come back only after its hold time, behind younger messages of the same object (invariant E4).
func (t *tenure) startOver(ctx context.Context, s jetstream.Stream) error {
	if !t.role.logged {
		if err := s.UnpinConsumer(ctx, t.consumer, priorityGroup); err != nil {
			return fmt.Errorf("unpin last owner: %w", err)
		}
		if _, err := s.ResetConsumer(ctx, t.consumer); err != nil {
			return fmt.Errorf("reset consumer: %w", err)
		}
	}
	info, err := s.Info(ctx)
	if err != nil {
		return fmt.Errorf("read stream: %w", err)
	}
	t.last = info.State.LastSeq
	return nil
}

// countDeaths notes whether the last owner died, and where.
func (t *tenure) countDeaths(ctx context.Context, floor uint64, died bool) error {
	l := &t.lease
	switch {
	case !died:
		l.Floor, l.Deaths, l.Suspect, l.Tries = floor, 0, 0, 0
	case l.Floor == floor:
		l.Deaths++
	default:
		l.Floor, l.Deaths = floor, 1
	}
	return t.save(ctx)
}

// cautious says that earlier owners died at about this message, so that it must be handed out alone.
func (t *tenure) cautious(seq uint64) bool {
	return t.lease.Deaths >= t.bus.poisoning.cautiousAfter && seq <= t.last
}

// suspect notes, on disk, that seq is about to be handed out alone, and says whether that was tried too often already.
func (t *tenure) suspect(ctx context.Context, seq uint64) (poison bool, err error) {
	if t.lease.Suspect != seq {
		t.lease.Suspect, t.lease.Tries = seq, 0
	}
	if t.lease.Tries+t.bus.poisoning.cautiousAfter >= t.bus.poisoning.maxDeliveries {
		return true, nil
	}
	t.lease.Tries++
	return false, t.save(ctx)
}

// release frees the role for the next owner, who then need not wait for this one's death.
func (t *tenure) release(ctx context.Context) error {
	if t.bus.nc.IsClosed() {
		return nil
	}
	if t.owned() && !t.role.logged { // else the pin may be the next owner's
		_ = t.bus.streams[t.role.stream].UnpinConsumer(ctx, t.consumer, priorityGroup) // the pin lapses by itself as well
	}
	t.lease = lease{revision: t.lease.revision}
	if err := t.save(ctx); err != nil {
		return fmt.Errorf("release role: %w", err)
	}
	return nil
}

// disown takes this replica's name off a role that it does not serve.
func (b *Bus) disown(ctx context.Context, r role) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	l, err := b.readLease(ctx, r)
	if err != nil || l.Member != b.members.self {
		return err
	}
	t := &tenure{bus: b, role: r, lease: lease{revision: l.revision}}
	return t.save(ctx)
}

func (b *Bus) readLease(ctx context.Context, r role) (lease, error) {
	e, err := b.buckets[bucketOwners].Get(ctx, r.name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return lease{}, nil
	}
	if err != nil {
		return lease{}, fmt.Errorf("read lease: %w", err)
	}
	var l lease
	if err := json.Unmarshal(e.Value(), &l); err != nil {
		l = lease{} // an entry that nobody understands holds nobody back
	}
	l.revision = e.Revision()
	return l, nil
}

func (t *tenure) save(ctx context.Context) error {
	body, err := json.Marshal(t.lease)
	if err != nil {
		return fmt.Errorf("encode lease: %w", err)
	}
	revision, err := t.bus.buckets[bucketOwners].Update(ctx, t.role.name, body, t.lease.revision)
	if err != nil {
		return fmt.Errorf("write lease: %w", err)
	}
	t.lease.revision = revision
	return nil
}
