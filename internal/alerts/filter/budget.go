package filter

import (
	"time"

	"notifier/internal/fair"
)

// Shares of time that the patterns of one namespace, and of all together, may take from the goroutines that route. They bound the cost of a
// tenant to the others, for any patterns and messages. It delays an event of another namespace by at most messageTime at once, and slows the
// route by at most namespaceTime in Window. All such tenants together leave half of the time of one goroutine.
const (
	Window        = 10 * time.Second
	namespaceTime = 2 * time.Second
	allTime       = 5 * time.Second
	// modestTime is the time that a namespace may still take when allTime is spent: a namespace that needs no more is not among the causes.
	modestTime  = 50 * time.Millisecond
	messageTime = 500 * time.Millisecond
)

// Budget accounts the time spent on patterns.
type Budget struct {
	*fair.Share
	clock func() time.Time
}

// NewBudget returns a budget of a part of the time, 1 for all of it and 4 for a quarter. It measures time by a clock.
func NewBudget(part time.Duration, clock func() time.Time) *Budget {
	return &Budget{clock: clock, Share: fair.NewShare(fair.ShareOptions{
		Window: Window, Namespace: namespaceTime / part, Total: allTime / part, Reserve: modestTime / part,
	})}
}

// Message is a message about which filters of its namespace decide one after the other, with the time that is left for it. The time starts
// at the first pattern: most Alerts have none.
type Message struct {
	text      string
	namespace string
	budget    *Budget
	left      time.Duration
	started   time.Time
}

// Message returns a message of an event in a namespace. The time that its filters take is charged to the budget by End.
func (b *Budget) Message(namespace, text string) Message {
	return Message{text: clip(text), namespace: namespace, budget: b}
}

// exhausted reports whether the time is spent.
func (m *Message) exhausted() bool {
	now := m.budget.clock()
	if m.started.IsZero() {
		m.started, m.left = now, min(messageTime, m.budget.Left(m.namespace))
	}
	return now.Sub(m.started) >= m.left
}

// End charges the time that the filters took to the namespace, and returns it.
func (m *Message) End() time.Duration {
	if m.started.IsZero() {
		return 0
	}
	took := m.budget.clock().Sub(m.started)
	m.budget.Spend(m.namespace, took)
	return took
}
