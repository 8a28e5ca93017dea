package watch

import "time"

// restateAfter is the age of a POST from an earlier term at which the object's state is published once more if it has another outcome. The
// object would be in the outcome of the POST by then, and the controller has stopped trying to POST a later one.
const restateAfter = emitterTime + settleTime

// restate queues the last published state of an object once more if a POST of another outcome was delivered before this term. The object was
// in that one, and its former worker died before it settled; nothing told its return if the controller could not POST that meanwhile. So what
// was told last would stay wrong (invariant E6). Such a POST proves nothing (invariant E9): it is not recorded.
func (t *publisher) restate(it item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subjects[it]
	if s == nil || len(s.pending) > 0 {
		return
	}
	last, found := t.posts.last(it)
	if !found || !last.accepted.Before(t.began) || last.uid != s.last.UID || last.outcome == s.last.Outcome || !last.accepted.After(s.last.Observed) {
		return
	}
	if wait := time.Until(last.accepted.Add(restateAfter)); wait > 0 {
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
	now := time.Now()
	t.push(it, s, &transition{state: s.last.state, object: o, observed: now, came: now, first: now, reached: now, again: true})
}

// last returns the POST about an object that was accepted last and covered no transition.
func (n *posts) last(it item) (last post, found bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.byItem[it]
	if len(all) == 0 {
		return post{}, false
	}
	return all[len(all)-1].Value.(post), true
}
