package alerts

import (
	"sync"
	"time"

	"notifier/internal/alerts/filter"
)

// maxOverspent bounds the Alerts of a namespace that are remembered as over budget. Further ones are served alike but not reported.
const maxOverspent = 1000

// overspent remembers the Alerts whose patterns took too long and that are reported for it.
type overspent struct {
	mu sync.Mutex
	// alerts has, by namespace and name, each Alert and when it was last cut short. looked is when they were last examined.
	alerts map[string]map[string]cutAlert
	looked time.Time
}

type cutAlert struct {
	*Alert
	last time.Time
}

func newOverspent() *overspent {
	return &overspent{alerts: map[string]map[string]cutAlert{}, looked: time.Now()}
}

// cut records that an Alert's patterns were cut short, and reports whether it is remembered.
func (o *overspent) cut(a *Alert, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.alerts[a.Namespace]
	if _, known := of[a.Name]; !known && len(of) >= maxOverspent {
		return false
	}
	if of == nil {
		of = map[string]cutAlert{}
		o.alerts[a.Namespace] = of
	}
	of[a.Name] = cutAlert{a, now}
	return true
}

// inTime forgets and returns, once in a window, the Alerts that have stayed within their budget for a whole one.
func (o *overspent) inTime(now time.Time) (well []*Alert) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.looked) < filter.Window {
		return nil
	}
	o.looked = now
	for namespace, of := range o.alerts {
		for name, c := range of {
			if now.Sub(c.last) >= filter.Window {
				well = append(well, c.Alert)
				delete(of, name)
			}
		}
		if len(of) == 0 {
			delete(o.alerts, namespace)
		}
	}
	return well
}
