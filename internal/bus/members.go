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
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	memberTTL   = 6 * time.Second
	memberBeat  = 2 * time.Second
	memberRetry = 500 * time.Millisecond
	// selfTTL is less than memberTTL so that a member that is cut off gives up first.
	selfTTL = memberTTL - 1500*time.Millisecond
)

// membership knows which replicas are alive and which kinds of roles each of them serves, and says which of them should have
// a role. Alone on an embedded server it knows itself.
//
// A member is alive as long as its heartbeats come through the bucket's watch, its own among them: who is cut off from the bus
// finds itself dead first, and gives its roles up before the others take them.
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
}

type member struct {
	kinds []string
	seen  time.Time
}

func newMembership(self string, kv jetstream.KeyValue) *membership {
	return &membership{
		self: self, kv: kv, now: time.Now, members: map[string]member{}, offered: map[string]int{},
		changed: make(chan struct{}), beat: make(chan struct{}, 1),
	}
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
	select {
	case m.beat <- struct{}{}:
	default:
	}
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
	ttl := memberTTL
	if id == m.self {
		ttl = selfTTL
	}
	return m.now().Sub(peer.seen) < ttl
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := m.kv.Delete(ctx, m.self); err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		log.Warn("cannot say goodbye to the members", "error", err)
	}
	return nil
}

func (m *membership) heartbeat(ctx context.Context, log *slog.Logger) {
	for {
		if err := m.sayAlive(ctx); err != nil && ctx.Err() == nil {
			log.Warn("cannot send a heartbeat", "error", err)
		}
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
	ctx, cancel := context.WithTimeout(ctx, memberBeat)
	defer cancel()
	_, err = m.kv.Put(ctx, m.self, body)
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		if err = m.remake(ctx); err == nil {
			_, err = m.kv.Put(ctx, m.self, body)
		}
	}
	if err != nil {
		return fmt.Errorf("put heartbeat: %w", err)
	}
	return nil
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
	m.members[e.Key()] = member{kinds: kinds, seen: m.now()}
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
