package watch

import (
	"container/list"
	"slices"
	"strings"
	"sync"
	"time"

	"notifier/internal/event"
)

// The bounds on posts. Beyond either the oldest post is dropped, of the object or of all. Dropping is the safe side: a missing post
// lets a transition be published twice, while one too many could suppress it.
const (
	maxPostsPerObject = 16
	maxPosts          = 1 << 16
)

// post remembers an accepted POST as long as a transition may turn out to be covered by it.
type post struct {
	item     item
	uid      string
	outcome  event.Outcome
	accepted time.Time
	// message is the beginning of a failure's message. revision is the event's revision if it has at most event.MaxRevision bytes.
	message, revision string
}

func postOf(it item, r *event.Record) post {
	x := post{item: it, uid: r.Event.InvolvedObject.UID, outcome: r.Outcome, accepted: r.Accepted}
	if x.outcome == event.OutcomeFailed {
		x.message = strings.Clone(r.Event.Message[:min(len(r.Event.Message), event.MessageStart)]) // a copy, so that the rest of it is not kept
	}
	if revision := r.Event.Revision(); len(revision) <= event.MaxRevision {
		x.revision = revision
	}
	return x
}

// postLead is how much older a POST may be than the state that it is about: controllers POST the outcome of a reconciliation before
// they write it, and write it once the POST is answered.
const postLead = 10 * time.Second

// covers reports whether the POST published tr, observed after prior was published. It counts if it has the UID and the outcome of tr,
// no other revision, and is not older than the observation of prior. A client that reaches the events endpoint and knows the UID can
// forge that (invariant E9), so there are more conditions. A failure must be in the object's own words, which no client can know
// before. A success must be accepted at most postLead before the state was reached, or later.
func (x post) covers(tr *transition, prior lastPublished) bool {
	switch {
	case x.uid != tr.UID, x.outcome != tr.Outcome, x.accepted.Before(prior.Observed):
		return false
	case x.revision != "" && tr.Revision != "" && x.revision != tr.Revision:
		return false
	case tr.Outcome == event.OutcomeFailed:
		return tr.object.says(x.message)
	default:
		return !x.accepted.Before(tr.reached.Add(-postLead))
	}
}

// contradicts reports whether the POST told another outcome of the object than its state has.
func (x post) contradicts(s state) bool { return x.uid == s.UID && x.outcome != s.Outcome }

// posts are the unused POSTs, in the order they were accepted. Accepted is by the clock of the replica that took the POST and is
// compared with times of this one's clock: the clocks are assumed to agree within a second or so.
type posts struct {
	mu sync.Mutex
	// all has every post, oldest first; byItem the elements of all that are about one object, oldest first.
	all    *list.List
	byItem map[item][]*list.Element
}

func newPosts() *posts {
	return &posts{all: list.New(), byItem: map[item][]*list.Element{}}
}

func (n *posts) add(x post) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.byItem[x.item] = append(n.byItem[x.item], n.all.PushBack(x))
	if len(n.byItem[x.item]) > maxPostsPerObject {
		n.removeOldest(x.item)
	}
	if n.all.Len() > maxPosts {
		n.removeOldest(n.all.Front().Value.(post).item)
	}
}

func (n *posts) removeOldest(it item) {
	oldest := n.byItem[it][0]
	n.remove(it, func(e *list.Element) bool { return e == oldest })
}

// take looks for a POST that covers tr, observed after prior was published, and uses it up. It also drops all posts that no later
// transition may use: those older than the used one, and those older than the observation of tr.
//
// With left the object has left the state. Otherwise a POST does not count if one of another outcome followed it: that was told last.
func (n *posts) take(it item, tr *transition, prior lastPublished, left bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	var used *list.Element
	all := n.byItem[it]
	for _, e := range all {
		if e.Value.(post).covers(tr, prior) {
			used = e
			break
		}
	}
	if used != nil && !left && all[len(all)-1].Value.(post).contradicts(tr.state) {
		return false
	}
	n.remove(it, func(e *list.Element) bool {
		accepted := e.Value.(post).accepted
		return e == used || accepted.Before(tr.observed) || used != nil && accepted.Before(used.Value.(post).accepted)
	})
	return used != nil
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

// forget drops the posts about a state that the object has left.
func (n *posts) forget(it item, uid string, outcome event.Outcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.remove(it, func(e *list.Element) bool {
		x := e.Value.(post)
		return x.uid == uid && x.outcome == outcome
	})
}

// remove drops the unwanted posts of an object. The caller holds the lock.
func (n *posts) remove(it item, unwanted func(*list.Element) bool) {
	n.byItem[it] = slices.DeleteFunc(n.byItem[it], func(e *list.Element) bool {
		drop := unwanted(e)
		if drop {
			n.all.Remove(e)
		}
		return drop
	})
	if len(n.byItem[it]) == 0 {
		delete(n.byItem, it)
	}
}

func (n *posts) len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all.Len()
}
