package fair

import "sync/atomic"

// Bounds on the lines of one namespace: LineRate a second, and LineBurst at once.
const (
	LineRate  = 100
	LineBurst = 2000
	// lineNamespaces bounds the namespaces whose lines are counted.
	lineNamespaces = 1 << 14
)

// Lines admits the lines of a log, so that those about one namespace do not fill it (invariant T6). Metrics and statuses have what is left
// out.
type Lines struct {
	namespaces *Limiters[string]
	left       atomic.Int64
}

// NewLines returns a Lines for one kind of line.
func NewLines() *Lines {
	return &Lines{namespaces: NewLimiters[string](LineRate, LineBurst, lineNamespaces)}
}

// Admit reports whether a line about a namespace is written now, and the number of omitted lines before it, of any namespace.
func (l *Lines) Admit(namespace string) (left int64, ok bool) {
	if !l.namespaces.Allow(namespace) {
		l.left.Add(1)
		return 0, false
	}
	return l.left.Swap(0), true
}
