package alerts

import (
	"sync/atomic"

	"notifier/internal/fair"
)

// Bounds on the log lines about the deliveries of one namespace: lineRate a second, and lineBurst at once. One event is a delivery for each of
// its namespace's Alerts, and each delivery to an unsupported type of Provider is a line without a send.
const (
	lineRate  = 100
	lineBurst = 2000
	// lineNamespaces bounds the namespaces whose lines are counted.
	lineNamespaces = 1 << 14
)

// lines admits the log lines about deliveries, so that those of one namespace do not fill the log (invariant T6). Metrics and statuses count
// every delivery.
type lines struct {
	namespaces *fair.Limiters[string]
	left       atomic.Int64
}

func newLines() *lines {
	return &lines{namespaces: fair.NewLimiters[string](lineRate, lineBurst, lineNamespaces)}
}

// admit reports whether a line about a delivery of a namespace is written now, and the number of omitted lines before it.
func (l *lines) admit(namespace string) (left int64, ok bool) {
	if !l.namespaces.Allow(namespace) {
		l.left.Add(1)
		return 0, false
	}
	return l.left.Swap(0), true
}
