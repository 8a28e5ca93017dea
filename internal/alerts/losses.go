package alerts

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"notifier/internal/event"
)

// The kinds under which losses are reported, each of an object of one of the two kinds.
const (
	AlertLosses    = "AlertLosses"
	ProviderLosses = "ProviderLosses"
)

const (
	// lossesShown is how long after the last of them losses are shown.
	lossesShown = time.Hour
	// lossesGap is the least time between two reports on one object.
	lossesGap = 10 * time.Second
	// maxLosses bounds the objects whose losses are counted. Those beyond it have their Kubernetes Events and the metric.
	maxLosses = 10_000
)

// Loss is what is shown of the deliveries of an Alert or to a Provider that were given up. Nothing in it is secret.
type Loss struct {
	// UID is the object's, so that a report about a deleted one is not shown on its successor.
	UID string `json:"uid"`
	// Count is how many were given up since this process began to count, zero when the last is longer ago than lossesShown.
	Count int `json:"count"`
	// At, Object and Reason are of the last one.
	At     time.Time `json:"at"`
	Object string    `json:"object"`
	Reason string    `json:"reason"`
}

// lossKey is an object that has losses; kind is AlertLosses or ProviderLosses.
type lossKey struct{ kind, namespace, name string }

type lossState struct {
	Loss
	reported time.Time
	dirty    bool
}

// losses counts the deliveries that were given up, by Alert and by Provider, and reports them.
type losses struct {
	reports Reporter

	mu sync.Mutex
	of map[lossKey]*lossState
}

func newLosses(r Reporter) *losses { return &losses{reports: r, of: map[lossKey]*lossState{}} }

// add counts one delivery that was given up, for an object with the UID that last has.
func (l *losses) add(key lossKey, last Loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of[key]
	if s == nil || s.UID != last.UID {
		if s == nil && len(l.of) >= maxLosses {
			return
		}
		s = &lossState{}
		l.of[key] = s
	}
	last.Count = s.Count + 1
	s.Loss, s.dirty = last, true
	l.report(key, s, time.Now())
}

// flush reports what was held back, and takes back what is old.
func (l *losses) flush(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, s := range l.of {
		if now.Sub(s.At) >= lossesShown {
			s.Loss, s.dirty, s.reported = Loss{UID: s.UID, At: s.At}, true, time.Time{}
			l.report(key, s, now)
			delete(l.of, key)
			continue
		}
		l.report(key, s, now)
	}
}

func (l *losses) report(key lossKey, s *lossState, now time.Time) {
	if !s.dirty || now.Sub(s.reported) < lossesGap {
		return
	}
	s.dirty, s.reported = false, now
	b, err := json.Marshal(s.Loss)
	if err != nil { // strings, a number and a time always encode
		panic(err)
	}
	l.reports.Report(healthKey(key.kind, key.namespace, key.name), b)
}

// Lost tells that a delivery was given up: it counts, logs and tells the owners of its Alert and of its Provider. reason is safe to show.
func (d *Deliverer) Lost(lost *event.Delivery, label, reason string) {
	d.lost(lost, nil, label, reason)
}

// lost is Lost with the destination that the delivery was meant for, nil to look it up.
func (d *Deliverer) lost(lost *event.Delivery, dest *Destination, label, reason string) {
	if dest == nil {
		dest = d.Destinations.Get(lost.Namespace, lost.Provider)
	}
	object := lost.Event.InvolvedObject.String()
	d.metrics.count(dest, outcomeDead, label)
	d.Log.Warn("delivery", "outcome", outcomeDead, "id", lost.ID, "namespace", lost.Namespace, "object", object, "alert", lost.Alert,
		"provider", lost.Provider, "attempts", lost.Attempts, "reason", reason)
	d.recordFailure(lost, reason)
	loss := Loss{UID: lost.AlertUID, At: time.Now().UTC(), Object: object, Reason: reason}
	if !lost.Test {
		d.losses.add(lossKey{AlertLosses, lost.Namespace, lost.Alert}, loss)
	}
	if dest == nil || lost.Test { // a test message that was given up was told, and nothing is lost with it
		return
	}
	d.Recorder.Event(kindProvider, lost.Namespace, lost.Provider, dest.UID, warning, ReasonGivenUp,
		fmt.Sprintf("notification about %s for Alert %s was given up: %s", object, lost.Alert, reason))
	loss.UID = dest.UID
	d.losses.add(lossKey{ProviderLosses, lost.Namespace, lost.Provider}, loss)
}
