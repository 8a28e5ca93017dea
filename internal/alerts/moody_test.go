package alerts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// moody is a destination that is up and down by turns and records its accepted deliveries.
type moody struct {
	mu       sync.Mutex
	t        *testing.T
	rng      *rand.Rand
	down     bool
	cured    bool
	inflight map[string]int // by session and object
	accepted map[string][]uint64
	count    map[string]int
	orders   map[string]uint64
}

func newMoody(t *testing.T, seed uint64) *moody {
	return &moody{
		t: t, rng: rand.New(rand.NewPCG(seed, 8)), inflight: map[string]int{}, accepted: map[string][]uint64{},
		count: map[string]int{}, orders: map[string]uint64{},
	}
}

// expect records a delivery that is about to be published, and may turn the mood.
func (m *moody) expect(d event.Delivery, turn bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.orders[d.ID] = d.Order
	m.down = m.down != turn
}

// cure has every send succeed from now on.
func (m *moody) cure() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cured = true
}

// took returns how long a send takes, more than nothing (see pass).
func (m *moody) took() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Duration(1+m.rng.IntN(3000)) * time.Millisecond
}

func (m *moody) sender(session int) Sender {
	return sendFunc(func(ctx context.Context, n provider.Notification) error { return m.send(ctx, session, n) })
}

func (m *moody) send(ctx context.Context, session int, n provider.Notification) error {
	object, took := n.Event.InvolvedObject.Name, m.took()
	key := fmt.Sprintf("%d/%s", session, object)
	m.mu.Lock()
	if m.inflight[key]++; m.inflight[key] > 1 {
		m.t.Errorf("two sends of %s at a time", object)
	}
	fails := !m.cured && (m.down || m.rng.IntN(5) == 0)
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.inflight[key]--
	}()
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return event.NewError(event.Retry, provider.LabelTimeout, "cut off", ctx.Err())
	}
	if fails {
		return event.NewError(event.Retry, provider.LabelServer, "down", nil)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.count[n.DeliveryID]++; m.count[n.DeliveryID] == 1 {
		m.accepted[object] = append(m.accepted[object], m.orders[n.DeliveryID])
	}
	return nil
}

// allInOrder fails the test unless every delivery was accepted, those of one object in order.
func (m *moody) allInOrder() {
	for id, order := range m.orders {
		if m.count[id] == 0 {
			m.t.Errorf("delivery %d was not accepted", order)
		}
	}
	for object, orders := range m.accepted {
		for i := 1; i < len(orders); i++ {
			if orders[i] < orders[i-1] {
				m.t.Errorf("%s: %d came after %d", object, orders[i], orders[i-1])
			}
		}
	}
}

// noneTwice fails the test if a delivery was accepted twice.
func (m *moody) noneTwice() {
	for id, n := range m.count {
		if n > 1 {
			m.t.Errorf("delivery %d was accepted %d times", m.orders[id], n)
		}
	}
}
