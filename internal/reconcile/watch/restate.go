package watch

import "time"

// restate queues the last published state of an object once more if a POST of another outcome was accepted before this term and covered no
// transition. The object was in that outcome, the former worker died before the outcome settled, and the POST of the return was lost: what was
// told last would stay wrong (invariant E6). If Ready has not changed since the POST, the object was never in its outcome: such are errors
// about an object that is Ready all the time. The POST itself proves nothing (invariant E9) and is not recorded. Before statusLag has passed the
// object may still get the outcome of the POST, and the controller may still try to POST a later one.
func (t *publisher) restate(it item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subjects[it]
	if s == nil || len(s.pending) > 0 {
		return
	}
	last, found := t.posts.last(it)
	if !found || !last.contradicts(s.last.state) || !last.accepted.After(s.last.Observed) || !last.accepted.Before(t.began) {
		return
	}
	if wait := time.Until(last.accepted.Add(statusLag)); wait > 0 {
		t.queue.EnqueueAfter(it, wait)
		return
	}
	in := t.cache.informerOf(it.kind)
	if in == nil || t.publishing[it.kind] != in {
		return
	}
	o := in.get(it.namespace, it.name)
	if o == nil {
		return
	}
	if st, terminal := o.terminal(); !terminal || st != s.last.state {
		return // it is considered when it has changed
	}
	if since := o.ready.since.time(); !since.IsZero() && since.Before(last.accepted.Add(-settleTime)) {
		return // it has not been in the outcome of the POST
	}
	now := time.Now()
	t.push(it, s, &transition{state: s.last.state, object: o, observed: now, first: now, reached: now, again: true})
}
