package api

import (
	"time"

	"notifier/internal/event/view"
)

// isOlder reports whether an item is from before its namespace was made, so of another namespace of that name. A delivery counts from
// when it was routed: it may have been given up since.
func isOlder(item any, made time.Time) bool {
	switch i := item.(type) {
	case view.Delivery:
		return !i.Routed.IsZero() && i.Routed.Before(made)
	case view.Item:
		return i.At().Before(made)
	}
	return false
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
