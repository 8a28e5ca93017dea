package alerts

import (
	"sync"
	"time"

	"notifier/internal/alerts/filter"
)

// overspent remembers the Alerts whose patterns took too long and that are reported for it. There are no more than were served in the last
// two windows with events.
type overspent struct {
	mu sync.Mutex
	// alerts has, by UID, each Alert and when it was last cut short. looked is when they were last examined.
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

// cut records that an Alert's patterns were cut short.
func (o *overspent) cut(a *Alert, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.alerts[a.UID] = cutAlert{a, now}
}

// inTime forgets and returns, once in a window, the Alerts that have stayed within their budget for a whole one.
func (o *overspent) inTime(now time.Time) (well []*Alert) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.looked) < filter.Window {
		return nil
	}
	o.looked = now
	for uid, c := range o.alerts {
		if now.Sub(c.last) >= filter.Window {
			well = append(well, c.Alert)
			delete(o.alerts, uid)
		}
	}
	return well
}
