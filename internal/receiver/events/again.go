package events

import (
	"context"
	"fmt"

	"notifier/internal/event"
)

// publishAgain publishes a record of which the stream has had one with the same ID, if it says so of something new: the object has come to
// the opposite outcome since. A source that fails, recovers and fails in the same words has failed twice, and a repetition of the POST
// about the first failure comes before the recovery's. It reports whether the record is a duplicate.
func (h *Handler) publishAgain(ctx context.Context, r *event.Record) (duplicate bool, err error) {
	if !r.Known || r.Doubted || r.Outcome == event.OutcomeNone { // what proves nothing makes nothing new (invariant E9)
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

// opposite reports whether last tells of the other outcome of r's object, and was not sent after r.
func opposite(last, r *event.Record) bool {
	return last.Known && !last.Doubted && last.Event.InvolvedObject.UID == r.Event.InvolvedObject.UID &&
		last.Outcome != event.OutcomeNone && last.Outcome != r.Outcome && !r.Event.Timestamp.Before(last.Event.Timestamp)
}
