package alerts

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Shares of time that the patterns of one namespace, and of all, may take from the one goroutine that routes. They bound
// what a tenant can do to the others: whatever its patterns and messages are, it delays an event of another namespace by
// at most eventTime at once and slows the route by at most namespaceTime in window; all such tenants together leave half of it.
const (
	budgetWindow  = 10 * time.Second
	namespaceTime = 2 * time.Second
	allTime       = 5 * time.Second
	// modestTime is what a namespace may still take when allTime is spent: who needs no more is not among the causes.
	modestTime = 50 * time.Millisecond
	eventTime  = 500 * time.Millisecond
)

// maxOverspent bounds the Alerts that are remembered as over budget; more of them are served alike but not reported.
const maxOverspent = 1000

// budget accounts the time spent on patterns. Its map is emptied every window.
type budget struct {
	clock func() time.Time

	mu    sync.Mutex
	start time.Time
	all   time.Duration
	spent map[string]time.Duration

	// over are the Alerts cut short in this window, was those reported earlier and not yet reported well.
	over, was map[string]*Alert
}

func newBudget(clock func() time.Time) *budget {
	return &budget{
		clock: clock, start: clock(), spent: map[string]time.Duration{}, over: map[string]*Alert{}, was: map[string]*Alert{},
	}
}

// meter limits the matching of one event in one namespace. It starts at the first pattern: most Alerts have none.
type meter struct {
	clock   func() time.Time
	left    time.Duration
	started time.Time
	done    bool
}

// exhausted reports whether the time is spent.
func (m *meter) exhausted() bool {
	now := m.clock()
	if m.started.IsZero() {
		m.started = now
	}
	m.done = m.done || now.Sub(m.started) >= m.left
	return m.done
}

// begin starts the matching of one event of a namespace.
func (b *budget) begin(namespace string) meter {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := min(eventTime, namespaceTime-b.spent[namespace])
	if b.all >= allTime {
		left = min(left, modestTime-b.spent[namespace])
	}
	return meter{clock: b.clock, left: left}
}

// end accounts what the matching took.
func (b *budget) end(namespace string, m *meter) time.Duration {
	if m.started.IsZero() {
		return 0
	}
	took := b.clock().Sub(m.started)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent[namespace] += took
	b.all += took
	return took
}

// busy reports whether a namespace has taken more than a modest time in this window.
func (b *budget) busy(namespace string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent[namespace] > modestTime
}

// cut notes that an Alert's patterns were cut short, and reports whether that is news.
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

// turn begins a new window if the old one is over, and returns the Alerts that were cut short before and stayed within their
// budget for a whole window since.
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
	b.start, b.all = now, 0
	clear(b.spent)
	clear(b.over)
	return well
}
