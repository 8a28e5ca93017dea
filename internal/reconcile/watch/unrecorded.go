package watch

import (
	"context"
	"time"

	"notifier/internal/event"
)

// recordLag is how much older than the newest record the event of an unrecorded transition may be. A worker records a transition as soon as
// its event is stored. Only if the store refuses the record of one object for longer, while it takes those of others, may a crash lose it.
const recordLag = 2 * time.Minute

// unrecorded finds the transitions that an earlier worker published and did not record before it died. An object may have returned to its
// recorded state since. Compared with the old record alone, that return would be no transition.
type unrecorded struct {
	publisher *publisher
	// found is the last event of each object whose transition has no record. recorded are the objects whose recorded event was read. An event
	// that is stored after it has none, whatever its time says: workers' clocks differ.
	found    map[item]*event.Record
	recorded map[item]bool
}

func newUnrecorded(t *publisher) *unrecorded {
	return &unrecorded{publisher: t, found: map[item]*event.Record{}, recorded: map[item]bool{}}
}

// add takes in the next stored event.
func (u *unrecorded) add(r *event.Record) {
	o := r.Event.InvolvedObject
	kind := kindNamed(o.Kind)
	if r.Source != event.SourceWatch || kind == nil || !u.publisher.isRecorded(kind) {
		return
	}
	it := item{kind, o.Namespace, o.Name}
	switch last := u.publisher.lastOf(it); {
	case r.Accepted.Equal(last.Observed):
		u.recorded[it] = true
		delete(u.found, it)
	case u.recorded[it], r.Accepted.After(last.Observed):
		u.found[it] = r
	}
}

// push queues the transitions.
func (u *unrecorded) push() {
	for it, r := range u.found {
		u.publisher.pushUnrecorded(it, r)
	}
}

// newestRecord returns when the newest recorded state was observed, the time of the baseline if there is none, as its objects are deleted, or the
// beginning of the term if there is neither before it.
func (t *publisher) newestRecord() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	newest := time.Time{}
	for _, s := range t.subjects {
		if s.last.Observed.After(newest) {
			newest = s.last.Observed
		}
	}
	if newest.IsZero() {
		newest = t.baselined
	}
	if newest.IsZero() || newest.After(t.began) {
		return t.began
	}
	return newest
}

// isRecorded reports whether the kind's first state is recorded.
func (t *publisher) isRecorded(kind *Kind) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.recorded[kind]
}

// lastOf returns the recorded state of an object, zero for none.
func (t *publisher) lastOf(it item) lastPublished {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.subjects[it]; s != nil {
		return s.last
	}
	return lastPublished{}
}

// pushUnrecorded adds a transition that only lacks its record.
func (t *publisher) pushUnrecorded(it item, r *event.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subjectOf(it)
	s.pending = append(s.pending, &transition{state: stateOf(r), decided: &decision{told: r.Accepted}, unrecorded: r})
	t.metrics.waiting.Inc()
	t.queue.Enqueue(it)
}

// record records the transition that r published, unless an earlier attempt did.
func (t *publisher) record(ctx context.Context, it item, r *event.Record) error {
	prior, revision, err := t.read(ctx, it)
	if err != nil {
		return err
	}
	if prior.Observed.Equal(r.Accepted) {
		t.settled(it, prior)
		return nil
	}
	next := lastPublished{state: stateOf(r), Since: r.Event.Timestamp, Observed: r.Accepted, Ordinal: 1}
	if prior.UID == next.UID {
		next.Ordinal = prior.Ordinal + 1
	}
	if err := t.write(ctx, it, next, revision); err != nil {
		return err
	}
	t.metrics.transitions.WithLabelValues(resultKnown).Inc()
	if left, ok := t.lines.Admit(it.namespace); ok {
		t.log.Info("transition of an earlier worker recorded", "kind", it.kind.Kind, "namespace", it.namespace, "name", it.name,
			"outcome", string(next.Outcome), "lines_left_out", left)
	}
	t.settled(it, next)
	return nil
}

// stateOf returns the state that a watcher's event published.
func stateOf(r *event.Record) state {
	return state{UID: r.Event.InvolvedObject.UID, Outcome: r.Outcome, Revision: r.Event.Revision()}
}
