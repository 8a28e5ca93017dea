package watch

import (
	"slices"
	"time"

	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// subject is the publisher's state of one object.
type subject struct {
	last lastPublished
	// seen is the last considered resource version. Informers repeat older ones after a list.
	seen string
	// published is the sequence of the last event of a watcher about the object, zero for none.
	published uint64
	// came is when the object came into its present terminal state in its present form, perhaps after another reconciliation. It is zero
	// while the object is in none; else that state is the waiting one, or the last published one.
	came time.Time
	// torn counts the forms in which the object was since one lasted for wholeAfter.
	torn int
	// found is when the term or the kind began, or a list showed what no watch did, if the object has been in no terminal state since. Its next
	// one may have existed before.
	found time.Time
	// pending are, in this order, transitions that are decided and not yet recorded, the end of the object, and one waiting transition.
	// Each of them may be missing.
	pending []*transition
}

// transition is a terminal state of an object that waits to be published, or with gone the end of the object. Its state, object and
// times are immutable: a new transition replaces it.
type transition struct {
	state
	object *object
	// observed is when the state was first seen. first is when the first of the states was seen that later ones of the same outcome have
	// replaced.
	observed, first time.Time
	// reached is when the object changed to the outcome, as far as that is known: at observed or before.
	reached time.Time
	gone    bool
	// again says that the state is the last published one, and that a POST told another one since.
	again bool
	// unrecorded, unless nil, is the event of an earlier worker that published the transition. There is no object then.
	unrecorded *event.Record
	// disputed is when a later POST that does not cover the state was first seen.
	disputed time.Time
	// decided, unless nil, is how the transition is published. From then on nothing replaces it.
	decided *decision
	// found is when the term or the kind began, or a list showed what no watch did, if the state existed then or may have, so that it may have
	// been published before.
	found time.Time

	// The following fields belong to the worker that settles the transition.
	published bool
	// unanswered says that an attempt to publish had no answer, so that its event may be stored, before the one at awaited, zero if that is not
	// known yet.
	unanswered bool
	awaited    uint64
	// overtaken counts the events of the object that were published while this one was being published.
	overtaken int
}

// maxWait bounds the wait of a state while its object moves from revision to revision, or while POSTs about the object that do not
// cover it are accepted.
const maxWait = time.Minute

// wholeAfter is how long after the first of the two requests of a status the second has certainly arrived. It took at most 131 ms in
// recordings.
const wholeAfter = time.Second

// maxTorn bounds how many forms of an object that did not last for wholeAfter are waited for: a minute's, if it changes without a pause.
const maxTorn = 60

// waiting returns the undecided transition, nil for none.
func (s *subject) waiting() *transition {
	if n := len(s.pending); n > 0 && s.pending[n-1].decided == nil && !s.pending[n-1].gone {
		return s.pending[n-1]
	}
	return nil
}

// decided returns the state last published, or certain to be; zero if there is none.
func (s *subject) decided() state {
	n := len(s.pending)
	if s.waiting() != nil {
		n--
	}
	switch {
	case n == 0:
		return s.last.state
	case s.pending[n-1].gone:
		return state{}
	default:
		return s.pending[n-1].state
	}
}

// told returns the last published state, or, if an event has told another one since, that one, which lacks only its record. It is zero while a
// state before the waiting one is not told yet, or the object has ended.
func (s *subject) told() lastPublished {
	n := len(s.pending)
	if s.waiting() != nil {
		n--
	}
	if n == 0 {
		return s.last
	}
	switch tr := s.pending[n-1]; {
	case tr.gone:
		return lastPublished{}
	case !tr.decided.told.IsZero():
		return lastPublished{state: tr.state, Observed: tr.decided.told}
	case tr.decided.result == resultPublished && s.published > tr.decided.last:
		return lastPublished{state: tr.state, Observed: tr.observed}
	default:
		return lastPublished{}
	}
}

// observe takes in an object from the informer.
func (t *publisher) observe(in *informer, o *object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.publishing[in.kind] == in {
		t.consider(o, time.Time{})
	}
}

// subjectOf returns the subject of an object, and makes it if there is none. The caller holds the lock.
func (t *publisher) subjectOf(it item) *subject {
	s := t.subjects[it]
	if s == nil {
		s = &subject{}
		t.subjects[it] = s
	}
	return s
}

// consider queues the object's state if it is terminal and unlike the last published one. found is the present time if the term or the kind
// begins, else zero. The caller holds the lock.
func (t *publisher) consider(o *object, found time.Time) {
	it := item{o.kind, o.Namespace, o.Name}
	s := t.subjects[it]
	if s != nil && kube.Older(o.ResourceVersion, s.seen) && t.current(it) != o {
		return // unlike the present state of a cluster that was restored from a backup
	}
	st, terminal := o.terminal()
	if s == nil && !terminal && found.IsZero() && !o.listed {
		return
	}
	s = t.subjectOf(it)
	s.seen = o.ResourceVersion
	if found.IsZero() {
		found = s.found
	}
	s.found = time.Time{}
	now, w := time.Now(), s.waiting()
	late := o.foundAt(found, now)
	if same := w != nil && w.state == st && w.object.ready.message == o.ready.message; !terminal || !same || s.came.IsZero() {
		s.change(now, terminal) // with another message it is the first request of another status
	}
	if !terminal {
		s.found = late
		return
	}
	if len(s.pending) == 0 && s.last.state == st {
		s.last.state, t.subjects[it] = st, s // the same state and key, but sharing the strings of the object
		if late.IsZero() || !t.toldOtherwise(it, s.last, o, late) {
			return
		}
	}
	tr := &transition{state: st, object: o, observed: now, found: found}
	if w != nil && w.state == st {
		tr.observed, tr.found, tr.disputed = w.observed, w.found, w.disputed
	}
	tr.reached = t.reached(s, tr)
	if !late.IsZero() {
		tr.found = late
	}
	t.arrive(it, s, tr)
}

// foundAt returns when the object was found in its form: now if a list shows it, else when the term or the kind began, if that is found.
func (o *object) foundAt(found, now time.Time) time.Time {
	if o.listed {
		return now
	}
	return found
}

// change takes in that the object has another form, terminal or not.
func (s *subject) change(now time.Time, terminal bool) {
	switch {
	case s.came.IsZero():
	case now.Sub(s.came) < wholeAfter:
		s.torn++
	default:
		s.torn = 0
	}
	s.came = time.Time{}
	if terminal {
		s.came = now
	}
}

// reached returns when the object changed to the outcome of tr. A list may show a state late, as after an outage of the API server; the
// condition then has the time of the change. A change within one outcome need not change that time. After a start the state waits from
// when it was observed, because controllers still try to POST the events of the time before. The caller holds the lock.
func (t *publisher) reached(s *subject, tr *transition) time.Time {
	since := tr.object.ready.since.time()
	unseen := tr.object.listed && tr.found.IsZero() && tr.observed.Sub(t.began) >= emitterTime
	if unseen && !since.IsZero() && since.Before(tr.observed) && s.decided().Outcome != tr.Outcome {
		return since
	}
	return tr.observed
}

// arrive takes in the terminal state that an object has reached. States that it only passes through are not published (invariant E6). A
// waiting state is dropped when the object has left it, for another outcome or back to the last published state. A later state of the
// same outcome replaces it: controllers write a status in two requests, and the first has the new outcome beside the old revision. The
// caller holds the lock.
func (t *publisher) arrive(it item, s *subject, tr *transition) {
	tr.first = tr.observed
	switch w := s.waiting(); {
	case w == nil:
	case w.UID == tr.UID && w.Outcome == tr.Outcome && tr.state != s.decided() || w.again && w.state == tr.state:
		// including the same state with a newer message
		tr.first, tr.again = w.first, w.again
		t.drop(s, len(s.pending)-1)
	default:
		t.leave(it, s)
	}
	told := s.told()
	tr.again = tr.again || tr.state == told.state && t.toldOtherwise(it, told, tr.object, tr.found)
	if tr.state != s.decided() || tr.again {
		t.push(it, s, tr)
	}
}

// toldOtherwise reports whether a POST of another outcome than the state told before, which the object is in, was accepted before this term, or
// before the object was found, and covered no transition. The object was in that outcome, and the former worker died before it settled or
// no watch showed it, and the POST of the return was lost: what was told last would stay wrong (invariant E6). If Ready has not changed since
// the POST, the object was never in its outcome: such are errors about an object that is Ready all the time. The POST itself proves nothing
// (invariant E9) and is not recorded. The caller holds the lock.
func (t *publisher) toldOtherwise(it item, before lastPublished, o *object, found time.Time) bool {
	last, told := t.posts.last(it)
	if !told || !last.contradicts(before.state) || !last.accepted.After(before.Observed) ||
		!last.accepted.Before(t.began) && !last.accepted.Before(found) {
		return false
	}
	since := o.ready.since.time()
	return since.IsZero() || !since.Before(last.accepted.Add(-settleTime))
}

// leave drops the waiting transition because its object has left the state. If a POST told the state, it is recorded instead: the return
// from it is then a transition as well.
func (t *publisher) leave(it item, s *subject) {
	w := s.waiting()
	if len(s.pending) <= maxPostsPerObject && !w.again { // else too many could wait while nothing is recorded
		if w.decided = t.posts.take(it, w, s.last, time.Now()); w.decided != nil {
			t.queue.Enqueue(it)
			return
		}
	}
	t.drop(s, len(s.pending)-1)
	t.metrics.transitions.WithLabelValues(resultLeft).Inc()
}

// drop removes a pending transition by its place. Nothing keeps it after that, and with it a former version of the object.
func (t *publisher) drop(s *subject, place int) {
	if s.pending = slices.Delete(s.pending, place, place+1); len(s.pending) == 0 {
		s.pending = nil
	}
	t.metrics.waiting.Dec()
}

// push adds a transition to the pending ones. The caller holds the lock.
func (t *publisher) push(it item, s *subject, tr *transition) {
	s.pending = append(s.pending, tr)
	t.metrics.waiting.Inc()
	if tr.gone {
		t.queue.Enqueue(it)
		return
	}
	t.queue.EnqueueAfter(it, time.Until(t.due(it, s, tr)))
}

// due returns the time when the transition may be published: a POST about it would have arrived by then. The caller holds the lock.
func (t *publisher) due(it item, s *subject, tr *transition) time.Time {
	due := tr.reached.Add(settleTime)
	if tr.Outcome == event.OutcomeSucceeded && it.kind.postsLast && t.posting(it.kind, tr.observed) {
		due = tr.observed.Add(emitterTime)
	}
	if latest := tr.first.Add(maxWait); due.After(latest) {
		due = latest
	}
	if whole := s.came.Add(wholeAfter); s.torn < maxTorn && due.Before(whole) {
		due = whole
	}
	return due
}

// posting reports whether a POST about an object of the kind may have been under way at a time. This is so if there were some not long
// before, or if this term had just begun and knew of none: controllers retry POSTs that no replica served. The caller holds the lock.
func (t *publisher) posting(kind *Kind, at time.Time) bool {
	return at.Sub(t.posted[kind]) < postsSince || at.Sub(t.began) < emitterTime
}

// forget takes in the deletion of an object. A waiting state counts as left.
func (t *publisher) forget(in *informer, namespace, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.publishing[in.kind] == in {
		t.end(item{in.kind, namespace, name})
	}
}

// end queues the end of an object. The caller holds the lock.
func (t *publisher) end(it item) {
	s := t.subjects[it]
	if s == nil {
		return
	}
	if s.waiting() != nil {
		t.leave(it, s)
	}
	s.seen, s.came, s.torn = "", time.Time{}, 0
	if n := len(s.pending); n > 0 && s.pending[n-1].gone {
		return
	}
	t.push(it, s, &transition{gone: true, observed: time.Now()})
}
