package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"notifier/internal/event"
)

// settle tells the transition of an object that has waited longest, once its time has come.
func (t *teller) settle(ctx context.Context, it item) error {
	tr := t.head(it)
	if tr == nil {
		return nil
	}
	if tr.gone {
		if err := t.opts.State.Delete(ctx, it.String()); err != nil {
			return fmt.Errorf("forget object: %w", err)
		}
		t.settled(it, told{})
		return nil
	}
	prior, revision, err := t.read(ctx, it)
	if err != nil {
		return err
	}
	if prior.state == tr.state { // an earlier attempt recorded it and did not learn so, or another leader did
		t.settled(it, prior)
		return nil
	}
	if wait, err := t.decide(ctx, it, tr, prior); err != nil || wait > 0 {
		if err == nil {
			t.queue.AddAfter(it, wait)
		}
		return err
	}
	next := told{state: tr.state, Since: tr.object.ready.since, Observed: tr.observed, Ordinal: 1}
	if prior.UID == tr.UID {
		next.Ordinal = prior.Ordinal + 1
	}
	if tr.result == resultPublished && !tr.published {
		if _, err := t.opts.Events.PublishEvent(ctx, newRecord(tr, prior, next)); err != nil {
			return fmt.Errorf("publish transition: %w", err)
		}
		tr.published = true
	}
	if err := t.write(ctx, it, next, revision); err != nil {
		return err
	}
	t.metrics.transitions.WithLabelValues(tr.result).Inc()
	t.log.Info("transition told", "kind", it.kind.Kind, "namespace", it.namespace, "name", it.name,
		"outcome", string(tr.Outcome), "reason", tr.object.ready.reason, "by", tr.result)
	t.settled(it, next)
	return nil
}

// decide settles how the transition is told, once and for all: another attempt to publish keeps to it. It returns how long to
// wait before it can say.
func (t *teller) decide(ctx context.Context, it item, tr *transition, prior told) (wait time.Duration, err error) {
	if tr.decided {
		return 0, nil
	}
	if tr.found {
		known, err := t.known(ctx, it, tr, prior)
		if err != nil {
			return 0, err
		}
		tr.found = false
		if known {
			tr.decided, tr.result = true, resultKnown
			return 0, nil
		}
	}
	if wait := time.Until(tr.observed.Add(t.opts.Settle)); wait > 0 {
		return wait, nil
	}
	late, err := t.late(ctx, it, tr, prior)
	if err != nil {
		return 0, err
	}
	tr.decided, tr.result = true, resultPublished
	if t.notes.take(it, tr, prior) && !late {
		tr.result = resultPosted
	}
	t.metrics.notes.Set(float64(t.notes.len()))
	return 0, nil
}

// late reports whether the POSTs that came in are about prior and not about tr, where the two differ by revision alone: a
// controller that keeps failing repeats its POST, and nothing but the revision tells that from a POST about the next one. Notes do
// not have it, but the object's last event does.
func (t *teller) late(ctx context.Context, it item, tr *transition, prior told) (bool, error) {
	if prior.UID != tr.UID || prior.Outcome != tr.Outcome {
		return false, nil
	}
	r, found, err := t.opts.Events.LastEvent(ctx, it.namespace, it.kind.Kind, it.name)
	if err != nil {
		return false, fmt.Errorf("last event of object: %w", err)
	}
	if !found || !r.Known || r.Doubted || r.Event.InvolvedObject.UID != tr.UID { // proves nothing (E9)
		return false, nil
	}
	return r.Event.Revision() != "" && r.Event.Revision() == prior.Revision, nil
}

// known reports whether the object's last event on the bus told the state already: it was published but the crash came before
// the record, or it was POSTed and the transition that it told was lost while it waited.
func (t *teller) known(ctx context.Context, it item, tr *transition, prior told) (bool, error) {
	r, found, err := t.opts.Events.LastEvent(ctx, it.namespace, it.kind.Kind, it.name)
	if err != nil {
		return false, fmt.Errorf("last event of object: %w", err)
	}
	switch {
	case !found, r.Event.InvolvedObject.UID != tr.UID, r.Outcome != tr.Outcome:
		return false, nil
	case r.Source != event.SourceWatch && (!r.Known || r.Doubted): // proves nothing (E9)
		return false, nil
	case r.Source != event.SourceWatch && r.Outcome == event.OutcomeFailed && !tr.object.tells(r.Event.Message): // nor does that
		return false, nil
	case prior.UID == tr.UID && r.Accepted.Before(prior.Observed): // about what came before
		return false, nil
	}
	if revision := r.Event.Revision(); revision != "" && tr.Revision != "" {
		return revision == tr.Revision, nil
	}
	return !r.Event.Timestamp.Before(tr.object.ready.since.Add(-t.opts.Settle)), nil
}

// newRecord is the event that tells the transition into next from prior.
func newRecord(tr *transition, prior, next told) *event.Record {
	o := tr.object
	at := next.Since
	if at.IsZero() || prior.UID == next.UID && !at.After(prior.Since) {
		at = tr.observed // a new revision came without a transition of the condition
	}
	severity := event.SeverityInfo
	if tr.Outcome == event.OutcomeFailed {
		severity = event.SeverityError
	}
	metadata := eventAnnotations(o.Annotations)
	if o.revision != "" {
		if metadata == nil {
			metadata = map[string]string{}
		}
		metadata[o.kind.Group+"/revision"] = o.revision
	}
	record := &event.Record{
		ID: event.TransitionID(o.Namespace, tr.UID, tr.Outcome, next.Since, next.Ordinal-1),
		Event: event.Event{
			InvolvedObject: event.ObjectReference{
				APIVersion: o.apiVersion, Kind: o.kind.Kind, Namespace: o.Namespace, Name: o.Name,
				UID: tr.UID, ResourceVersion: o.ResourceVersion,
			},
			Severity: severity, Timestamp: at.UTC().Truncate(time.Second), Message: o.ready.message, Reason: o.ready.reason,
			Metadata: metadata, ReportingController: o.kind.Controller,
		},
		// It may have waited for the bus while its namespace was deleted and made again.
		Source: event.SourceWatch, Outcome: tr.Outcome, Known: true, Labels: o.known().Labels, Accepted: tr.observed,
	}
	record.Event.TrimMetadata()
	return record
}

// head is the transition of the object that has waited longest, nil if none waits.
func (t *teller) head(it item) *transition {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.subjects[it]; s != nil && len(s.pending) > 0 {
		return s.pending[0]
	}
	return nil
}

// settled takes the head away, which led to what is now told, and has the next one looked at.
func (t *teller) settled(it item, now told) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subjects[it]
	s.told = now
	s.pending = s.pending[1:]
	t.metrics.waiting.Dec()
	switch {
	case len(s.pending) > 0:
		t.queue.Add(it)
	case now == told{}:
		delete(t.subjects, it)
	}
}

// read returns what is recorded of an object, zero if nothing is, with the revision of the record.
func (t *teller) read(ctx context.Context, it item) (told, uint64, error) {
	value, revision, found, err := t.opts.State.Get(ctx, it.String())
	if err != nil {
		return told{}, 0, fmt.Errorf("read what was told: %w", err)
	}
	if !found {
		return told{}, 0, nil
	}
	return decodeTold(value), revision, nil
}

// decodeTold reads a record. One that cannot be read counts as nothing told: its object is told once more.
func decodeTold(value []byte) told {
	var x told
	if err := json.Unmarshal(value, &x); err != nil {
		return told{}
	}
	return x
}

func (t *teller) write(ctx context.Context, it item, x told, revision uint64) error {
	value, err := json.Marshal(x)
	if err != nil {
		return fmt.Errorf("record what was told: %w", err)
	}
	if err := t.opts.State.Put(ctx, it.String(), value, revision); err != nil {
		return fmt.Errorf("record what was told: %w", err)
	}
	return nil
}
