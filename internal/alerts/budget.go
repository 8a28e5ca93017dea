package alerts

import (
	"slices"
	"strings"
	"sync"
	"time"

	"notifier/internal/fair"
)

// Shares of time that the patterns of one namespace, and of all together, may take from the one goroutine that routes. They bound the
// cost of a tenant to the others, for any patterns and messages. It delays an event of another namespace by at most eventTime at once,
// and slows the route by at most namespaceTime in window. All such tenants together leave half of the route's time.
const (
	budgetWindow  = 10 * time.Second
	namespaceTime = 2 * time.Second
	allTime       = 5 * time.Second
	// modestTime is the time that a namespace may still take when allTime is spent: a namespace that needs no more is not among the causes.
	modestTime = 50 * time.Millisecond
	eventTime  = 500 * time.Millisecond
)

// maxOverspent bounds the Alerts that are remembered as over budget. Further ones are served alike but not reported.
const maxOverspent = 1000

// budget accounts the time spent on patterns, and remembers the Alerts whose patterns took too long.
type budget struct {
	share *fair.Share
	clock func() time.Time

	mu    sync.Mutex
	start time.Time
	// over are the Alerts cut short in this window. was are those reported earlier and not yet reported well.
	over, was map[string]*Alert
}

// newBudget returns the router's budget, for meters by a clock.
func newBudget(clock func() time.Time) *budget {
	return budgetOf(fair.ShareOptions{Window: budgetWindow, Namespace: namespaceTime, Total: allTime, Reserve: modestTime}, clock)
}

// explainPart divides the router's budget: explanations may take that part of it, in addition to the router's own.
const explainPart = 4

// newExplaining returns the budget of explanations.
func newExplaining(clock func() time.Time) *budget {
	return budgetOf(fair.ShareOptions{
		Window: budgetWindow, Namespace: namespaceTime / explainPart, Total: allTime / explainPart, Reserve: modestTime / explainPart,
	}, clock)
}

func budgetOf(o fair.ShareOptions, clock func() time.Time) *budget {
	return &budget{share: fair.NewShare(o), clock: clock, start: clock(), over: map[string]*Alert{}, was: map[string]*Alert{}}
}

// meter limits the matching of one event in one namespace. It starts at the first pattern: most Alerts have none.
type meter struct {
	*budget
	namespace string
	left      time.Duration
	started   time.Time
	done      bool
}

// exhausted reports whether the time is spent.
func (m *meter) exhausted() bool {
	now := m.clock()
	if m.started.IsZero() {
		m.started, m.left = now, min(eventTime, m.share.Left(m.namespace))
	}
	m.done = m.done || now.Sub(m.started) >= m.left
	return m.done
}

// end charges the time that the matching took to the namespace, and returns it.
func (m *meter) end() time.Duration {
	if m.started.IsZero() {
		return 0
	}
	took := m.clock().Sub(m.started)
	m.share.Spend(m.namespace, took)
	return took
}

// cut records that an Alert's patterns were cut short, and reports whether that is news.
func (b *budget) cut(a *Alert) bool {
	key := a.Key()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.over) >= maxOverspent {
		return false
	}
	b.over[key] = a
	if _, known := b.was[key]; known {
		return false
	}
	b.was[key] = a
	return true
}

// turn begins a new window if the old one is over. It returns the Alerts that were cut short before and have since stayed within their
// budget for a whole window.
func (b *budget) turn() []*Alert {
	now := b.clock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.start) < budgetWindow {
		return nil
	}
	var well []*Alert
	for key, a := range b.was {
		if _, again := b.over[key]; !again {
			well = append(well, a)
			delete(b.was, key)
		}
	}
	slices.SortFunc(well, func(x, y *Alert) int { return strings.Compare(x.Key(), y.Key()) })
	b.start = now
	clear(b.over)
	return well
}
