package receiver

import (
	"sync"
	"time"

	"notifier/internal/event"
)

// maxAsked bounds the targets of one namespace that are known to have been asked to reconcile, of which those told of latest are at
// least half. With about 150 bytes each that is 150 KiB for a namespace that is busy, and nothing for one that was quiet.
const maxAsked = 1024

// asked knows which targets of a namespace were asked to reconcile lately, as far as this replica did the asking. It forgets by
// generation what is older than a delivery is remembered, or too much.
type asked struct {
	mu         sync.Mutex
	began      time.Time // of the young generation
	young, old map[string]request
}

// request is what is known of the last request for a target. The clock may be set back, so neither time says it all: stamp may be
// of before that, and told of another trigger.
type request struct {
	// stamp is what it was stamped with or earlier, told when this was learnt.
	stamp, told time.Time
}

func (a *asked) add(key string, stamp, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.age(now)
	if len(a.young) >= maxAsked/2 {
		a.old, a.young = a.young, nil
	}
	if a.young == nil {
		a.young, a.began = make(map[string]request), now
	}
	a.young[key] = request{stamp, now}
}

// expire gives the memory back of what is too old to count.
func (a *asked) expire(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.age(now)
}

// age makes the young generation the old one in time. The lock is held.
func (a *asked) age(now time.Time) {
	if (a.young != nil || a.old != nil) && now.Sub(a.began) >= rememberFor {
		a.old, a.young, a.began = a.young, nil, now
	}
}

// since reports whether every target of the triggers was asked for a webhook accepted at the given time, or for a later one.
func (a *asked) since(accepted time.Time, triggers []event.Trigger) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range triggers {
		r, known := a.young[triggers[i].Key]
		if !known {
			r = a.old[triggers[i].Key]
		}
		if r.stamp.Before(accepted) || r.told.Before(accepted) {
			return false
		}
	}
	return true
}

// Applied tells that all objects of the target that triggers of a namespace have under a key (event.Trigger.Key) were asked to
// reconcile, stamped no earlier than stamp. Only what is told here can make a repeated delivery trigger nothing, so a replica that
// does not apply the triggers it accepts publishes those of a repeat again.
func (t *Table) Applied(namespace, key string, stamp time.Time) {
	t.mu.Lock()
	n := t.tenants[namespace]
	t.mu.Unlock()
	if n != nil {
		n.asked.add(key, stamp, time.Now())
	}
}
