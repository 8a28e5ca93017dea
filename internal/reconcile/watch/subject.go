package watch

import (
	"time"

	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// subject is what the publisher knows of one object.
type subject struct {
	last lastPublished
	// seen is the resource version last looked at. Informers repeat older ones after a list.
	seen string
	// terminal says that the object is in a terminal state now: the one that waits, or else the one published last.
	terminal bool
	// left is when the object last left a state of an outcome that was not published.
	left map[event.Outcome]time.Time
	// pending are, in this order, a transition that is decided and not yet recorded, the end of the object, and one transition that
	// waits. Each of them may be missing.
	pending []*transition
}

// transition is a terminal state of an object that waits to be published, or with gone the end of the object. Its state, object and times are
// never changed: another takes its place.
type transition struct {
	state
	object *object
	// observed is when the state was first seen, came when the object last came to it, perhaps after it was at work again, and first when
	// the first was seen that others of its outcome have replaced.
	observed, came, first time.Time
	gone                  bool
	// decided says that how the transition is published is settled. From then on nothing takes its place.
	decided bool
	// found says that the state was there when the leader or the kind started, so that it may have been published before.
	found bool

	// From here on the fields belong to the worker that settles the transition.
	result    string
	published bool
	// overtaken counts the events of the object that came in while this one was being published.
	overtaken int
}

// maxWait is how long a state may wait while its object goes on from revision to revision, or while POSTs about the object come in that do
// not cover it.
const maxWait = time.Minute

// wholeAfter is how long after the first of the two requests of a status the second has come for sure. It was 131 ms at most in recordings.
const wholeAfter = time.Second

// waiting is the transition that is not decided, nil for none.
func (s *subject) waiting() *transition {
	if n := len(s.pending); n > 0 && !s.pending[n-1].decided && !s.pending[n-1].gone {
		return s.pending[n-1]
	}
	return nil
}

// decided is the state last published, or sure to be; zero if there is none.
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

// observe takes in an object as the informer saw it.
func (t *publisher) observe(in *informer, o *object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.publishing[in.kind] == in {
		t.consider(o, false)
	}
}

// consider has the object's state wait if it is terminal and unlike the last published one. The caller holds the lock.
func (t *publisher) consider(o *object, found bool) {
	it := item{o.kind, o.Namespace, o.Name}
	s := t.subjects[it]
	if s != nil && kube.Older(o.ResourceVersion, s.seen) {
		return
	}
	st, terminal := o.terminal()
	if s == nil && terminal {
		s = &subject{}
		t.subjects[it] = s
	}
	if s == nil {
		return
	}
	s.seen = o.ResourceVersion
	stood := s.terminal
	s.terminal = terminal
	if !terminal {
		return
	}
	if len(s.pending) == 0 && s.last.state == st {
		s.last.state = st // the same, in the strings of the object
		return
	}
	now := time.Now()
	tr := &transition{state: st, object: o, observed: now, came: now, found: found}
	if w := s.waiting(); w != nil && w.state == st {
		tr.observed, tr.found = w.observed, w.found
		if stood {
			tr.came = w.came
		}
	}
	t.arrive(it, s, tr)
}

// arrive takes in the terminal state that an object has come to. What it only passed through is not published (invariant E6): a state that
// waits is dropped when the object has left it, for another outcome or back to the last published state, and replaced by a later one of the same
// outcome. Controllers write a status in two requests, of which the first has the new outcome beside the old revision. The caller holds
// the lock.
func (t *publisher) arrive(it item, s *subject, tr *transition) {
	tr.first = tr.observed
	w := s.waiting()
	switch {
	case tr.state == s.decided():
		if w != nil {
			t.leave(it, s)
		}
		return
	case w == nil:
	case w.UID == tr.UID && w.Outcome == tr.Outcome: // or the same in its newest words
		tr.first = w.first
		t.drop(s)
	default:
		t.leave(it, s)
	}
	t.push(it, s, tr)
}

// leave drops the transition that waits because its object has left the state. POSTs that covered it cover no later one.
func (t *publisher) leave(it item, s *subject) {
	w := s.waiting()
	t.posts.forget(it, w.UID, w.Outcome)
	if s.left == nil {
		s.left = map[event.Outcome]time.Time{}
	}
	s.left[w.Outcome] = time.Now()
	t.drop(s)
	t.metrics.transitions.WithLabelValues(resultLeft).Inc()
}

func (t *publisher) drop(s *subject) {
	s.pending = s.pending[:len(s.pending)-1]
	t.metrics.waiting.Dec()
}

// push adds a transition to those that are pending. The caller holds the lock.
func (t *publisher) push(it item, s *subject, tr *transition) {
	s.pending = append(s.pending, tr)
	t.metrics.waiting.Inc()
	if tr.found || tr.gone {
		t.queue.Enqueue(it)
		return
	}
	t.queue.EnqueueAfter(it, time.Until(t.due(it, tr)))
}

// due is when the transition may be published: when a POST about it would have come. The caller holds the lock.
func (t *publisher) due(it item, tr *transition) time.Time {
	due := tr.observed.Add(t.opts.Settle)
	if tr.Outcome == event.OutcomeSucceeded && it.kind.postsLast && t.posting(it.kind, tr.observed) {
		due = tr.observed.Add(emitterTime)
	}
	if latest := tr.first.Add(maxWait); due.After(latest) {
		due = latest
	}
	if whole := tr.came.Add(wholeAfter); due.Before(whole) {
		due = whole
	}
	return due
}

// posting reports whether a POST about an object of the kind may have been on its way at a time: there were some not long ago, or this
// term has just begun and knows of none. What controllers could not POST while nobody served they may still be trying to. The caller
// holds the lock.
func (t *publisher) posting(kind *Kind, at time.Time) bool {
	return at.Sub(t.posted[kind]) < postsSince || at.Sub(t.began) < emitterTime
}

// forget takes in the deletion of an object. A state that waits to be published has been left.
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
	s.seen, s.terminal = "", false
	if n := len(s.pending); n > 0 && s.pending[n-1].gone {
		return
	}
	t.push(it, s, &transition{gone: true, observed: time.Now()})
}
