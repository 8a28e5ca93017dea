package events

import (
	"time"

	"golang.org/x/time/rate"

	"notifier/internal/event"
	"notifier/internal/receiver/limit"
)

const (
	// maxDoubts bounds the objects, and their states, that doubts remember of; the one used longest ago is forgotten.
	maxDoubts = 16384
	// aheadTime is after how long one more POST may be ahead of a state that has not changed.
	aheadTime = 10 * time.Minute
)

// toldBudget is how many POSTs about one object are believed. Controllers stay far below it.
var toldBudget = limit.Budget{Rate: 0.1, Burst: 20}

// doubts decide which POSTs about a known object are doubted (invariant E9): a sender that knows an object's UID can claim anything of it.
// A POST that agrees with the object's state is believed. A controller POSTs before it writes the new state, so the first POST that
// contradicts a state is believed as well, and no other until the state has changed.
type doubts struct {
	told  *limit.Limiters[objectKey]
	ahead *limit.Limiters[objectState]
}

// objectKey names an object, objectState one version of it.
type (
	objectKey   struct{ namespace, kind, name string }
	objectState struct {
		objectKey
		version string
	}
)

func newDoubts() *doubts {
	return &doubts{
		told:  limit.NewLimiters[objectKey](toldBudget, maxDoubts),
		ahead: limit.NewLimiters[objectState](limit.Budget{Rate: 1 / aheadTime.Seconds(), Burst: 1}, maxDoubts),
	}
}

// of reports whether a POST about a known object is doubted, which uses up what is believed of the object. Undo takes that back, if the
// POST was not accepted.
func (d *doubts) of(r *event.Record, object event.Object, now time.Time) (doubted bool, undo func()) {
	o := r.Event.InvolvedObject
	key := objectKey{o.Namespace, o.Kind, o.Name}
	taken := []*rate.Reservation{d.told.Take(key, now)}
	if object.Outcome != event.OutcomeNone && object.Outcome != r.Outcome {
		taken = append(taken, d.ahead.Take(objectState{key, object.Version}, now))
	}
	for _, t := range taken {
		doubted = doubted || t == nil
	}
	return doubted, func() {
		for _, t := range taken {
			if t != nil {
				t.CancelAt(now)
			}
		}
	}
}
