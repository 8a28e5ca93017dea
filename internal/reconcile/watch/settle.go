package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"notifier/internal/event"
)

const (
	// settleTime is how long a transition waits for a POST about it.
	settleTime = 5 * time.Second
	// emitterTime is how long a controller tries to POST an event: at once and after 1, 3, 7 and 15 s, each time for up to 5 s.
	emitterTime = 20 * time.Second
	// statusLag is how long after a POST was accepted its object may still be in another state than it told. A controller POSTs the outcome of a
	// reconciliation before it writes it, and writes it once it has an answer: if a process dies before it answers, only the last try has.
	statusLag = emitterTime + settleTime
	// postsSince is the greatest age of a kind's last POST at which its controller counts as POSTing.
	postsSince = time.Hour
	// maxOvertaken bounds how often a transition waits for an event that was published at the same moment.
	maxOvertaken = 3
)

// decision is how a transition is published.
type decision struct {
	result string
	// told is when an event was accepted that had told the state already. It is zero if none did.
	told time.Time
	// last is the sequence of the object's last event, zero for none, and lastID its ID.
	last   uint64
	lastID string
	// disputed says that this event is a POST of what the object had not become in the time that this was waited for.
	disputed bool
}

// settle publishes the first pending transition of an object, once it is due.
func (t *publisher) settle(ctx context.Context, it item) error {
	tr, d := t.head(it)
	switch {
	case tr == nil, !event.Owned(ctx): // another worker settles it, by what became of the object while this process was stopped
		return nil
	case tr.gone:
		if err := t.opts.State.Delete(ctx, it.String()); err != nil {
			return fmt.Errorf("forget object: %w", err)
		}
		t.settled(it, lastPublished{})
		return nil
	case tr.unrecorded != nil:
		return t.record(ctx, it, tr.unrecorded)
	case d == nil && !t.isDue(it, tr):
		return nil // nothing is read before
	}
	prior, revision, err := t.read(ctx, it)
	if err != nil {
		return err
	}
	if prior.state == tr.state && !tr.again { // an earlier attempt whose answer was lost recorded it, or another worker did
		if d != nil || t.claim(it, tr, func() *decision { return &decision{} }) != nil {
			t.settled(it, prior)
		}
		return nil
	}
	if d == nil {
		if d, err = t.decide(ctx, it, tr, prior); err != nil || d == nil {
			return err
		}
	}
	next := lastPublished{state: tr.state, Since: tr.object.ready.since.time(), Observed: tr.observed, Ordinal: 1}
	if !d.told.IsZero() && d.told.Before(tr.observed) {
		next.Observed = d.told // the cache lagged, and the POST of the next state may have been accepted before it was observed
	}
	if prior.UID == tr.UID {
		next.Ordinal = prior.Ordinal + 1
	}
	if d.result == resultPublished && !tr.published {
		if done, err := t.publish(ctx, it, tr, d, newRecord(tr, prior, next)); err != nil || !done {
			return err
		}
	}
	if err := t.write(ctx, it, next, revision); err != nil {
		return err
	}
	t.metrics.transitions.WithLabelValues(d.result).Inc()
	if left, ok := t.lines.Admit(it.namespace); ok {
		t.log.Info("transition published", "kind", it.kind.Kind, "namespace", it.namespace, "name", it.name,
			"outcome", string(tr.Outcome), "reason", tr.object.ready.reason, "by", d.result, "lines_left_out", left)
	}
	t.settled(it, next)
	return nil
}

// decide determines how the transition is published. It returns nil when it cannot decide yet and has enqueued another look, or when another
// state has replaced the transition.
func (t *publisher) decide(ctx context.Context, it item, tr *transition, prior lastPublished) (*decision, error) {
	if d := t.claim(it, tr, func() *decision { return t.posts.take(it, tr, prior, time.Time{}) }); d != nil {
		return d, nil
	}
	last, err := t.last(ctx, it)
	if err != nil {
		return nil, err
	}
	d := &decision{result: resultPublished}
	switch {
	case coveredBy(it, last, tr, prior):
		d = postedBy(last)
	case last != nil:
		wait, disputed := t.contradicted(last, tr)
		if wait > 0 {
			t.queue.EnqueueAfter(it, wait)
			return nil, nil
		}
		d.last, d.lastID, d.disputed = last.Seq, last.ID, disputed
	}
	return t.claim(it, tr, func() *decision { return d }), nil
}

// coveredBy reports whether the object's last event is a POST that covers the transition.
func coveredBy(it item, last *event.Record, tr *transition, prior lastPublished) bool {
	return last != nil && last.Source == event.SourcePost && last.Known && !last.Doubted && postOf(it, last).covers(tr, prior)
}

// postedBy is the decision about a transition that a POST covers whose post has not arrived yet.
func postedBy(r *event.Record) *decision { return &decision{result: resultPosted, told: r.Accepted} }

// isDue reports whether the transition is due. Otherwise the object is looked at again: at the due time, or when the object, whose
// reconciliation is under way, returns to the state.
func (t *publisher) isDue(it item, tr *transition) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subjects[it]
	if wait := time.Until(t.due(it, s, tr)); wait > 0 {
		t.queue.EnqueueAfter(it, wait)
		return false
	}
	return !s.came.IsZero()
}

// claim decides about the transition, unless another has replaced it or its object has left it.
func (t *publisher) claim(it item, tr *transition, how func() *decision) *decision {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subjects[it]
	if s == nil || len(s.pending) == 0 || s.pending[0] != tr || tr.decided != nil {
		return nil
	}
	tr.decided = how()
	return tr.decided
}

// contradicted returns the pause that a later POST which does not cover the transition demands, and whether there is such a POST. The object
// is then about to leave the state, and an event published after a newer one of the object would be out of order (invariant E4). A POST proves
// nothing (invariant E9), so the wait is bounded, from when the first such POST was seen: the bus may have been away before. The transition is
// published if the object stays in the state. The wait is longer after a POST of the time before this term, which may have had no answer.
func (t *publisher) contradicted(last *event.Record, tr *transition) (wait time.Duration, disputed bool) {
	if last.Source != event.SourcePost || !last.Known || last.Doubted || last.Event.InvolvedObject.UID != tr.UID {
		return 0, false
	}
	var until time.Time
	switch {
	case last.Accepted.Before(t.began):
		until = last.Accepted.Add(statusLag)
	case last.Accepted.After(tr.observed):
		until = last.Accepted.Add(settleTime)
	default:
		return 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if tr.disputed.IsZero() {
		tr.disputed = time.Now()
	}
	if latest := tr.disputed.Add(maxWait); until.After(latest) {
		until = latest
	}
	return time.Until(until), until.After(tr.observed)
}

// publish publishes the transition, unless the term is over. If an event of the object was published since the decision, the transition is
// decided anew: that event may cover it, or may be about a later state. After maxOvertaken such events it is published anyway. A disputed
// decision is made anew as well if the object has left the state meanwhile, as the bus was away: the POST was right.
func (t *publisher) publish(ctx context.Context, it item, tr *transition, d *decision, r *event.Record) (done bool, err error) {
	switch {
	case !event.Owned(ctx):
		return false, nil
	case d.lastID == r.ID: // another worker published it
		r.Seq = d.last
	case d.disputed && t.hasLeft(it):
		err = event.ErrOvertaken
	case tr.overtaken < maxOvertaken:
		_, err = t.opts.Events.PublishEventAfter(ctx, r, d.last)
	default:
		_, err = t.opts.Events.PublishEvent(ctx, r)
	}
	if errors.Is(err, event.ErrOvertaken) {
		last, err := t.last(ctx, it)
		if err != nil {
			return false, err
		}
		switch seq := t.lastPublished(it); { // by an attempt whose answer was lost
		case last != nil && last.ID == r.ID:
			r.Seq = last.Seq
		case seq > d.last:
			r.Seq = seq
		case tr.unanswered && t.behind(tr, last):
			t.queue.EnqueueAfter(it, minBusPause)
			return false, nil
		default:
			tr.overtaken++
			t.unclaim(it, tr, last)
			return false, nil
		}
	} else if err != nil {
		tr.unanswered, tr.awaited = true, 0
		return false, fmt.Errorf("publish transition: %w", err)
	}
	tr.published = true
	t.published(it, r.Seq) // before the follower has it
	return true, nil
}

// behind reports whether the follower may not have the event of an attempt whose answer was lost: it has not read up to the event that was the
// object's last one at the next attempt. So other events of the object do not prolong the wait.
func (t *publisher) behind(tr *transition, last *event.Record) bool {
	if last == nil {
		return false
	}
	tr.awaited = min(cmp.Or(tr.awaited, last.Seq), last.Seq) // a server may lose the end of the stream
	return t.followed.Load() < tr.awaited
}

// lastPublished returns the sequence of the last event of a watcher about the object, as far as it is known; zero for none.
func (t *publisher) lastPublished(it item) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.subjects[it].published
}

// hasLeft reports whether the object is no longer in the state of its first pending transition.
func (t *publisher) hasLeft(it item) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subjects[it]
	return s.came.IsZero() || len(s.pending) > 1
}

// unclaim undoes claim because of a later event. If another transition is pending by now, the object only passed through the state, which is
// then dropped or, if a POST told it, recorded.
func (t *publisher) unclaim(it item, tr *transition, last *event.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue.Enqueue(it)
	tr.decided = nil
	s := t.subjects[it]
	if len(s.pending) == 1 {
		if o := t.current(it); o != nil {
			if st, terminal := o.terminal(); terminal && st == tr.state {
				tr.object = o // the POST may be about the message that it has by now
			}
		}
		return
	}
	left := s.pending[1].observed
	if tr.decided = t.posts.take(it, tr, s.last, left); tr.decided == nil && coveredBy(it, last, tr, s.last) && !last.Accepted.After(left) {
		tr.decided = postedBy(last)
	}
	if tr.decided == nil {
		t.drop(s, 0)
		t.metrics.transitions.WithLabelValues(resultLeft).Inc()
	}
}

// last returns the last event of the object, nil for none.
func (t *publisher) last(ctx context.Context, it item) (*event.Record, error) {
	r, found, err := t.opts.Events.LastEvent(ctx, it.namespace, it.kind.Kind, it.name)
	if err != nil {
		return nil, fmt.Errorf("last event of object: %w", err)
	}
	if !found {
		return nil, nil
	}
	return r, nil
}

// newRecord returns the event of the transition into next from prior.
func newRecord(tr *transition, prior, next lastPublished) *event.Record {
	o := tr.object
	at := next.Since
	if at.IsZero() || prior.UID == next.UID && !at.After(prior.Since) {
		at = tr.observed // the revision changed without a transition of the condition
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
		// The transition may have waited for the bus while its namespace was deleted and created again.
		Source: event.SourceWatch, Outcome: tr.Outcome, Known: true, Labels: o.known().Labels, Accepted: tr.observed,
	}
	record.Event.TrimMetadata()
	return record
}

// head returns the object's first pending transition with the decision about it, nil if there is none.
func (t *publisher) head(it item) (*transition, *decision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.subjects[it]; s != nil && len(s.pending) > 0 {
		return s.pending[0], s.pending[0].decided
	}
	return nil, nil
}

// settled removes the head, records now as last published, and enqueues the next transition.
func (t *publisher) settled(it item, now lastPublished) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subjects[it]
	s.last = now
	t.drop(s, 0)
	switch {
	case len(s.pending) > 0:
		t.queue.Enqueue(it)
	case now == lastPublished{}:
		delete(t.subjects, it)
	}
}

// read returns the record of an object with its revision, zero if there is none.
func (t *publisher) read(ctx context.Context, it item) (lastPublished, uint64, error) {
	value, revision, found, err := t.opts.State.Get(ctx, it.String())
	if err != nil {
		return lastPublished{}, 0, fmt.Errorf("read last published state: %w", err)
	}
	if !found {
		return lastPublished{}, 0, nil
	}
	return decodeLast(value), revision, nil
}

// decodeLast reads a record. An unreadable one counts as nothing published: its object is published once more.
func decodeLast(value []byte) lastPublished {
	var x lastPublished
	if err := json.Unmarshal(value, &x); err != nil {
		return lastPublished{}
	}
	return x
}

func (t *publisher) write(ctx context.Context, it item, x lastPublished, revision uint64) error {
	value, err := json.Marshal(x)
	if err != nil {
		return fmt.Errorf("record last published state: %w", err)
	}
	if err := t.opts.State.Put(ctx, it.String(), value, revision); err != nil {
		return fmt.Errorf("record last published state: %w", err)
	}
	return nil
}
