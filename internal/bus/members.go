package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	memberTTL   = 6 * time.Second
	memberBeat  = 2 * time.Second
	memberRetry = 500 * time.Millisecond
	// selfTTL is less than memberTTL so that a member that is cut off gives up first. It counts from when a heartbeat was sent, and the
	// others count from when they got it: how long it was on its way is on the safe side.
	selfTTL = memberTTL - 1500*time.Millisecond
)

// membership knows which replicas are alive and which kinds of roles each of them serves, and says which of them should have
// a role. Alone on an embedded server it knows itself.
//
// A member is alive as long as its heartbeats come through the bucket's watch, its own among them: who is cut off from the bus
// finds itself dead first, and gives its roles up before the others take them. A process that was stopped finds the heartbeats of
// before in its buffers, so its own count from when they were sent, and a term that has lapsed does not go on: what was owned in it
// is lost, although the next heartbeat comes through.
type membership struct {
	self string
	kv   jetstream.KeyValue // nil when alone
	// remake makes the bucket again: it lives in the server's memory and goes when that one is restarted.
	remake func(ctx context.Context) error
	now    func() time.Time

	mu      sync.Mutex
	members map[string]member
	offered map[string]int // kinds that this replica serves, by the number of calls that serve them
	changed chan struct{}  // closed and replaced at every change
	beat    chan struct{}  // asks for a heartbeat now
	rewatch chan struct{}  // asks for a watch of the bucket that there is now
	sent    []heartbeat    // this replica's, that the server has confirmed and that did not come back yet
	last    heartbeat      // the youngest that was confirmed
	heard   uint64         // the revision of the last one that came back

	term atomic.Pointer[term]
}

type member struct {
	kinds []string
	seen  time.Time // for this replica itself, when the heartbeat was sent
}

// heartbeat is one of this replica's.
type heartbeat struct {
	revision uint64
	at       time.Time
}

// term is a time without a gap in which this replica was alive.
type term struct {
	number uint64
	until  time.Time
}

// over reports whether the term has ended. A machine that sleeps stops its monotonic clock, so the wall clock is asked as well.
func (t *term) over(now time.Time) bool {
	return !now.Before(t.until) || !now.Round(0).Before(t.until.Round(0))
}

func newMembership(self string, kv jetstream.KeyValue) *membership {
	m := &membership{
		self: self, kv: kv, now: time.Now, members: map[string]member{}, offered: map[string]int{},
		changed: make(chan struct{}), beat: make(chan struct{}, 1), rewatch: make(chan struct{}, 1),
	}
	m.term.Store(&term{})
	return m
}

// holds reports whether the term of a number lasts. It takes no lock: it is asked before every send.
func (m *membership) holds(number uint64) bool {
	if m.kv == nil {
		return true
	}
	t := m.term.Load()
	return t.number == number && !t.over(m.now())
}

// offer says that this replica serves roles of this kind until the returned function is called.
func (m *membership) offer(kind string) (withdraw func()) {
	m.adjust(kind, 1)
	return func() { m.adjust(kind, -1) }
}

func (m *membership) adjust(kind string, by int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offered[kind] += by
	m.announce()
	ask(m.beat)
}

// ask makes a request that is still open once.
func ask(request chan<- struct{}) {
	select {
	case request <- struct{}{}:
	default:
	}
}

// reconnected is called when the server is back: it may have been restarted and have forgotten the bucket, which its watch does not
// notice.
func (m *membership) reconnected() {
	ask(m.beat)
	ask(m.rewatch)
}

// announce wakes everyone who waits for a change. The lock is held.
func (m *membership) announce() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// owner returns the member that should have a role, empty when nobody serves its kind, and a channel that is closed when the
// answer may have changed. Among those who serve the kind the one with the highest hash of member and role wins (rendezvous
// hashing): when a member comes or goes only its own roles move.
func (m *membership) owner(kind, role string) (string, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kv == nil {
		if m.offered[kind] > 0 {
			return m.self, m.changed
		}
		return "", m.changed
	}
	best, most := "", uint64(0)
	for id, peer := range m.members {
		if !m.living(id, peer) || !slices.Contains(peer.kinds, kind) {
			continue
		}
		if id == m.self && m.offered[kind] <= 0 {
			continue
		}
		if w := weight(id, role); best == "" || w > most || w == most && id > best {
			best, most = id, w
		}
	}
	return best, m.changed
}

func weight(member, role string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(member + "\x00" + role)) // a hash never fails
	// FNV leaves the high bits of short, similar inputs alike; this mixes them (the finalizer of SplitMix64).
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// alive reports whether a member has been heard of within its time to live.
func (m *membership) alive(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kv == nil {
		return id == m.self
	}
	peer, found := m.members[id]
	return found && m.living(id, peer)
}

// living is the one rule of who is alive. The lock is held.
func (m *membership) living(id string, peer member) bool {
	if id == m.self {
		self := term{until: peer.seen.Add(selfTTL)}
		return !self.over(m.now())
	}
	return m.now().Sub(peer.seen) < memberTTL
}

// run sends heartbeats and follows those of others until ctx ends, then says goodbye.
func (m *membership) run(ctx context.Context, log *slog.Logger) error {
	if m.kv == nil {
		<-ctx.Done()
		return nil
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if err := m.follow(ctx); err != nil && ctx.Err() == nil {
				log.Warn("cannot follow the members", "error", err)
			}
			if wait(ctx, memberRetry) != nil {
				return
			}
		}
	})
	m.heartbeat(ctx, log)
	wg.Wait()
	m.term.Store(&term{}) // from the goodbye on the others do not wait
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := m.kv.Delete(ctx, m.self); err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		log.Warn("cannot say goodbye to the members", "error", err)
	}
	return nil
}

// heartbeat sends heartbeats until ctx ends. The next one does not wait for the answer to the last: a server that is slow for a moment
// confirms them late, and one that lost a request never does.
func (m *membership) heartbeat(ctx context.Context, log *slog.Logger) {
	var sending sync.WaitGroup
	defer sending.Wait()
	for {
		sending.Go(func() {
			if err := m.sayAlive(ctx); err != nil && ctx.Err() == nil {
				log.Warn("cannot send a heartbeat", "error", err)
				_ = wait(ctx, memberRetry)
				ask(m.beat)
			}
		})
		timer := time.NewTimer(memberBeat)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-m.beat:
			timer.Stop()
		case <-timer.C:
		}
	}
}

func (m *membership) sayAlive(ctx context.Context) error {
	kinds := []string{}
	m.mu.Lock()
	for kind, n := range m.offered {
		if n > 0 {
			kinds = append(kinds, kind)
		}
	}
	m.mu.Unlock()
	slices.Sort(kinds)
	body, err := json.Marshal(kinds)
	if err != nil {
		return fmt.Errorf("encode heartbeat: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, selfTTL) // later it would not count
	defer cancel()
	at := m.now()
	revision, err := m.kv.Put(ctx, m.self, body)
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		if err = m.remake(ctx); err == nil {
			revision, err = m.kv.Put(ctx, m.self, body)
		}
	}
	if err != nil {
		return fmt.Errorf("put heartbeat: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = slices.DeleteFunc(m.sent, func(b heartbeat) bool { return m.now().Sub(b.at) > selfTTL })
	if at.After(m.last.at) {
		if revision <= m.last.revision { // of another bucket than the one before
			ask(m.rewatch)
		}
		m.last = heartbeat{revision, at}
	}
	m.sent = append(m.sent, heartbeat{revision, at})
	m.renew()
	return nil
}

// renew makes the term longer when a heartbeat was both confirmed and heard, in whichever order. The lock is held.
func (m *membership) renew() {
	i := slices.IndexFunc(m.sent, func(b heartbeat) bool { return b.revision == m.heard })
	if i < 0 {
		return
	}
	at, now := m.sent[i].at, m.now()
	m.sent = slices.Delete(m.sent, 0, i+1)
	last := m.term.Load()
	next := &term{number: last.number, until: at.Add(selfTTL)}
	if next.over(now) {
		return
	}
	if last.over(now) {
		next.number++
		m.announce()
	}
	m.term.Store(next)
	peer := m.members[m.self]
	peer.seen = at
	m.members[m.self] = peer
}

// follow reads the bucket's watch. Time passes without messages, so deaths are announced by a ticker.
func (m *membership) follow(ctx context.Context) error {
	w, err := m.kv.WatchAll(ctx)
	if err != nil {
		return fmt.Errorf("watch members: %w", err)
	}
	defer func() { _ = w.Stop() }()
	tick := time.NewTicker(memberRetry)
	defer tick.Stop()
	began := m.now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.rewatch:
			return errors.New("bucket of members may be another one")
		case e, open := <-w.Updates():
			if !open {
				return errors.New("watch of members ended")
			}
			if e != nil {
				m.observe(e)
			}
		case <-tick.C:
			m.expire()
			// A watch does not notice by itself that its bucket is another one now.
			if m.now().Sub(began) > memberTTL && !m.alive(m.self) {
				return errors.New("own heartbeats do not come through")
			}
		}
	}
}

func (m *membership) observe(e jetstream.KeyValueEntry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Operation() != jetstream.KeyValuePut {
		delete(m.members, e.Key())
		m.announce()
		return
	}
	var kinds []string
	if json.Unmarshal(e.Value(), &kinds) != nil {
		return
	}
	old, found := m.members[e.Key()]
	if e.Key() == m.self {
		m.members[m.self] = member{kinds: kinds, seen: old.seen}
		m.heard = e.Revision()
		m.renew()
	} else {
		m.members[e.Key()] = member{kinds: kinds, seen: m.now()}
	}
	if !found || !slices.Equal(old.kinds, kinds) {
		m.announce()
	}
}

func (m *membership) expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, peer := range m.members {
		if !m.living(id, peer) {
			delete(m.members, id)
			m.announce()
		}
	}
}
