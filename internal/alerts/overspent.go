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

// overspent remembers the Alerts whose patterns took too long and that are reported for it.
type overspent struct {
	mu sync.Mutex
	// alerts has, by key, each Alert and when it was last cut short. looked is when they were last examined.
	alerts map[string]cutAlert
	looked time.Time
}

type cutAlert struct {
	*Alert
	last time.Time
}

func newOverspent() *overspent {
	return &overspent{alerts: map[string]cutAlert{}, looked: time.Now()}
}

// cut records that an Alert's patterns were cut short, and reports whether that is news.
func (o *overspent) cut(a *Alert, now time.Time) bool {
	key := a.Key()
	o.mu.Lock()
	defer o.mu.Unlock()
	_, known := o.alerts[key]
	if !known && len(o.alerts) >= maxOverspent {
		return false
	}
	o.alerts[key] = cutAlert{a, now}
	return !known
}

// inTime forgets and returns, once in a window, the Alerts that have stayed within their budget for a whole one.
func (o *overspent) inTime(now time.Time) (well []*Alert) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.looked) < filter.Window {
		return nil
	}
	o.looked = now
	for key, c := range o.alerts {
		if now.Sub(c.last) >= filter.Window {
			well = append(well, c.Alert)
			delete(o.alerts, key)
		}
	}
	slices.SortFunc(well, func(x, y *Alert) int { return strings.Compare(x.Key(), y.Key()) })
	return well
}
