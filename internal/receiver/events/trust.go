package events

import (
	"time"

	"golang.org/x/time/rate"

	"notifier/internal/event"
	"notifier/internal/fair"
)

const (
	// maxTrust bounds the objects, and their states, whose believed POSTs are remembered; the least recently used is evicted.
	maxTrust = 16384
	// aheadTime is the time after which one more POST may be ahead of an unchanged state.
	aheadTime = 10 * time.Minute
)

// objectRate a second and objectBurst at once bound the believed POSTs about one object. Controllers stay far below.
const (
	objectRate  = 0.1
	objectBurst = 20
)

// trust decides which POSTs about a known object are doubted (invariant E9): a sender that knows an object's UID can claim anything about
// it. A POST that agrees with the object's state is believed. A controller POSTs before it writes the new state, so the first POST that
// contradicts a state is believed as well, and no other until the state has changed.
type trust struct {
	objects, states *fair.Limiters[objectState]
}

// objectState names an object, or with version one state of it.
type objectState struct{ namespace, kind, name, version string }

func newTrust() *trust {
	return &trust{
		objects: fair.NewLimiters[objectState](objectRate, objectBurst, maxTrust),
		states:  fair.NewLimiters[objectState](rate.Every(aheadTime), 1, maxTrust),
	}
}

// doubts reports whether a POST about a known object is doubted. The POST uses up the object's budget of belief; undo restores it, if the
// POST was not accepted.
func (t *trust) doubts(r *event.Record, object event.Object, now time.Time) (doubted bool, undo func()) {
	o := r.Event.InvolvedObject
	key := objectState{namespace: o.Namespace, kind: o.Kind, name: o.Name}
	taken := []func(){t.objects.Take(key, now)}
	if object.Outcome != event.OutcomeNone && object.Outcome != r.Outcome {
		key.version = object.Version
		taken = append(taken, t.states.Take(key, now))
	}
	for _, giveBack := range taken {
		doubted = doubted || giveBack == nil
	}
	return doubted, func() {
		for _, giveBack := range taken {
			if giveBack != nil {
				giveBack()
			}
		}
	}
}
