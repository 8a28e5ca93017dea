package alerts

import (
	"slices"
	"strings"
	"sync"
	"time"

	"notifier/internal/alerts/filter"
)

// maxOverspent bounds the Alerts that are remembered as over budget. Further ones are served alike but not reported.
const maxOverspent = 1000

// overspent remembers the Alerts whose patterns took too long.
type overspent struct {
	mu    sync.Mutex
	start time.Time
	// over are the Alerts cut short in this window. was are those reported earlier and not yet reported well.
	over, was map[string]*Alert
}

func newOverspent() *overspent {
	return &overspent{start: time.Now(), over: map[string]*Alert{}, was: map[string]*Alert{}}
}

// cut records that an Alert's patterns were cut short, and reports whether that is news.
func (o *overspent) cut(a *Alert) bool {
	key := a.Key()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.over) >= maxOverspent {
		return false
	}
	o.over[key] = a
	if _, known := o.was[key]; known {
		return false
	}
	o.was[key] = a
	return true
}

// turn begins a new window if the old one is over. It returns the Alerts that were cut short before and have since stayed within their
// budget for a whole window.
func (o *overspent) turn(now time.Time) []*Alert {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.start) < filter.Window {
		return nil
	}
	var well []*Alert
	for key, a := range o.was {
		if _, again := o.over[key]; !again {
			well = append(well, a)
			delete(o.was, key)
		}
	}
	slices.SortFunc(well, func(x, y *Alert) int { return strings.Compare(x.Key(), y.Key()) })
	o.start = now
	clear(o.over)
	return well
}
