package subscribe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"notifier/internal/event"
)

// moody is a bus that is slow, fails, and has no room for some namespaces' triggers, until it is cured.
type moody struct {
	*followed
	t   *testing.T
	mu  sync.Mutex
	rng *rand.Rand
	// events are in stream order; those before acked are acknowledged.
	events    []*event.Record
	acked     int
	more      chan struct{}
	cured     bool
	full      map[string]bool
	published []event.Trigger
	// rough has the bus behave as the real one does at its worst. late are then the reports of this process that are under way, though the
	// subscriber was told that they failed. Those of a process whose term has ended are stored nevertheless.
	rough bool
	late  []lateReport
	// meanwhile is called while triggers are published.
	meanwhile func()
}

// lateReport is a report that is stored when its timer fires.
type lateReport struct {
	*time.Timer
	store func()
}

func (m *moody) one(n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.cured && m.rng.IntN(n) == 0
}

var errMoody = errors.New("no answer")

func (m *moody) PublishTriggers(ctx context.Context, triggers ...event.Trigger) error {
	if ctx.Err() != nil || m.one(6) {
		return errMoody
	}
	m.mu.Lock()
	for _, t := range triggers {
		if m.full[t.Namespace] {
			m.mu.Unlock()
			return fmt.Errorf("publish: %w", event.ErrTooManyTriggers)
		}
	}
	if m.rough && !m.cured && m.rng.IntN(10) == 0 {
		m.published = append(m.published, triggers[:m.rng.IntN(len(triggers))]...)
		m.mu.Unlock()
		return errMoody
	}
	m.published = append(m.published, triggers...)
	m.mu.Unlock()
	if m.one(3) {
		m.meanwhile()
	}
	if ctx.Err() != nil || m.one(10) {
		return errMoody
	}
	return nil
}

func (m *moody) Put(ctx context.Context, key string, value []byte) error {
	if ctx.Err() != nil || m.one(8) {
		return errMoody
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle()
	if m.rough && !m.cured && m.rng.IntN(8) == 0 {
		store := func() { m.store(key, value) }
		m.late = append(m.late, lateReport{time.AfterFunc(time.Duration(m.rng.Int64N(int64(2*flushTime))), store), store})
		return errMoody
	}
	m.store(key, value)
	return nil
}

// settle has the late reports of this process stored, whose requests the server serves in their order. The caller has the lock.
func (m *moody) settle() {
	for _, l := range m.late {
		if l.Stop() {
			l.store()
		}
	}
	m.late = nil
}

func (m *moody) All(ctx context.Context, each func(string, []byte)) error {
	m.mu.Lock()
	m.settle()
	m.mu.Unlock()
	return m.followed.All(ctx, each)
}

func (m *moody) Subscribe(ctx context.Context, serve func(context.Context, event.Reader) error) error {
	return serve(ctx, m)
}

var errInterrupted = errors.New("server was lost for a moment")

func (m *moody) Read(ctx context.Context, handle func(context.Context, []*event.Record) error) error {
	m.mu.Lock()
	at := m.acked
	m.mu.Unlock()
	for ctx.Err() == nil {
		if m.rough && m.one(30) {
			return errInterrupted
		}
		m.mu.Lock()
		n := min(len(m.events)-at, 1+m.rng.IntN(4))
		batch := m.events[at : at+n]
		m.mu.Unlock()
		if n == 0 {
			select {
			case <-ctx.Done():
			case <-m.more:
			}
			continue
		}
		for ctx.Err() == nil {
			if handle(ctx, batch) != nil {
				<-time.After(time.Second / 2)
				continue
			}
			at += n
			if !m.one(5) { // else the ack is lost if the term ends now
				m.mu.Lock()
				m.acked = at
				m.mu.Unlock()
			}
			break
		}
	}
	return nil
}

func (m *moody) Skip(_ context.Context, idle func() bool) error {
	m.mu.Lock()
	end := len(m.events)
	m.mu.Unlock()
	if idle() {
		m.mu.Lock()
		m.acked = end
		m.mu.Unlock()
	}
	return nil
}

func (m *moody) tell(namespace, object string) {
	r := about("ImagePolicy/" + object)
	r.Event.InvolvedObject.Namespace = namespace
	r.Accepted = time.Now()
	m.mu.Lock()
	r.Seq = uint64(len(m.events) + 1)
	m.events = append(m.events, r)
	m.mu.Unlock()
	select {
	case m.more <- struct{}{}:
	default:
	}
}
