package events

import (
	"context"
	"fmt"

	"notifier/internal/event"
)

// publishAgain publishes a record whose ID the stream already has, if the record is news: the object has since had the opposite outcome. A
// source that fails, recovers and fails in the same words has failed twice, while a repetition of the POST about the first failure is sent
// before the recovery's. It reports whether the record is a duplicate.
func (h *Handler) publishAgain(ctx context.Context, r *event.Record) (duplicate bool, err error) {
	if !r.Known || r.Doubted || r.Outcome == event.OutcomeNone { // without proof a record is no news (invariant E9)
		return true, nil
	}
	o := r.Event.InvolvedObject
	last, found, err := h.options.Events.LastEvent(ctx, o.Namespace, o.Kind, o.Name)
	switch {
	case err != nil:
		return false, fmt.Errorf("last event of object: %w", err)
	case !found, !opposite(last, r):
		return true, nil
	}
	r.ID = event.AgainID(r.ID, last.ID)
	return h.options.Events.PublishEvent(ctx, r)
}

// opposite reports whether last has the other outcome of r's object, and is not newer than r.
func opposite(last, r *event.Record) bool {
	return last.Known && !last.Doubted && last.Event.InvolvedObject.UID == r.Event.InvolvedObject.UID &&
		last.Outcome != event.OutcomeNone && last.Outcome != r.Outcome && !r.Event.Timestamp.Before(last.Event.Timestamp)
}
