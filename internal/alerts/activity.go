package alerts

import (
	"encoding/json"
	"sync"
	"time"
)

// The kinds under which it is reported when an Alert last selected an event, and when one was last delivered.
const (
	AlertMatched = "AlertMatched"
	AlertSent    = "AlertSent"
)

const (
	// activityStep is the least time between two reports that an Alert is active.
	activityStep = 10 * time.Minute
	// maxActive bounds the Alerts that are known to have been reported. When there are more, all are reported anew.
	maxActive = 20_000
)

// Activity is when an Alert last did something, up to activityStep old.
type Activity struct {
	// UID is the Alert's, so that a report about a deleted one is not shown on its successor.
	UID string    `json:"uid"`
	At  time.Time `json:"at"`
}

// alertName is an Alert.
type alertName struct{ namespace, name string }

// activities report one sort of activity.
type activities struct {
	kind    string
	reports Reporter

	mu   sync.Mutex
	told map[alertName]Activity
}

func newActivities(kind string, r Reporter) *activities {
	return &activities{kind: kind, reports: r, told: map[alertName]Activity{}}
}

// note reports that an Alert was active, unless that was reported lately.
func (a *activities) note(namespace, name, uid string, now time.Time) {
	key := alertName{namespace, name}
	a.mu.Lock()
	defer a.mu.Unlock()
	last, known := a.told[key]
	if known && last.UID == uid && now.Sub(last.At) < activityStep {
		return
	}
	if !known && len(a.told) >= maxActive {
		clear(a.told)
	}
	is := Activity{UID: uid, At: now.UTC()}
	a.told[key] = is
	b, err := json.Marshal(is)
	if err != nil { // a string and a time always encode
		panic(err)
	}
	a.reports.Report(healthKey(a.kind, namespace, name), b)
}
