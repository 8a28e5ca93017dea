package watch

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event"
	"notifier/internal/fair"
)

// The bounds on posts. Beyond the first the oldest post of the object is dropped, beyond the second those of the object whose posts were
// used longest ago. Dropping is the safe side: a missing post lets a transition be published twice, while one too many could suppress it.
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
	seq      uint64 // of the event
	// message is the beginning of a failure's message. revision is the event's revision if it has at most event.MaxRevision bytes.
	message, revision string
}

func postOf(it item, r *event.Record) post {
	x := post{item: it, uid: r.Event.InvolvedObject.UID, outcome: r.Outcome, accepted: r.Accepted, seq: r.Seq}
	if x.outcome == event.OutcomeFailed {
		x.message = strings.Clone(r.Event.Message[:min(len(r.Event.Message), event.MessageStart)]) // a copy, so that the rest of it is not kept
	}
	if revision := r.Event.Revision(); len(revision) <= event.MaxRevision {
		x.revision = revision
	}
	return x
}

// covers reports whether the POST published tr, observed after prior was published. It counts if it has the UID and the outcome of tr,
// no other revision, and is not older than the observation of prior. A client that reaches the events endpoint and knows the UID can
// forge that (invariant E9), so there are more conditions. A failure must be in the object's own words, which no client can know
// before. A success must be accepted at most statusLag before the state was reached, or later. If the state may have existed before the
// term, or before a list showed it, the time in its condition is that, unless the revisions agree.
func (x post) covers(tr *transition, prior lastPublished) bool {
	switch {
	case x.uid != tr.UID, x.outcome != tr.Outcome, x.accepted.Before(prior.Observed):
		return false
	case x.revision != "" && tr.Revision != "" && x.revision != tr.Revision:
		return false
	case tr.Outcome == event.OutcomeFailed:
		return tr.object.says(x.message)
	case x.accepted.Before(tr.found):
		return x.revision != "" && tr.Revision != "" || !x.accepted.Before(tr.object.ready.since.time().Add(-statusLag))
	default:
		return !x.accepted.Before(tr.reached.Add(-statusLag))
	}
}

// contradicts reports whether the POST told another outcome of the object than its state has.
func (x post) contradicts(s state) bool { return x.uid == s.UID && x.outcome != s.Outcome }

// posts are the unused POSTs, in the order they were accepted. Accepted is by the clock of the replica that took the POST and is
// compared with times of this one's clock: the clocks are assumed to agree within a second or so.
type posts struct {
	mu sync.Mutex
	// items has the posts about each object, oldest first.
	items *simplelru.LRU[item, []post]
	n     int // of all objects
	gauge prometheus.Gauge
}

func newPosts(gauge prometheus.Gauge) *posts {
	return &posts{items: fair.NewLRU[item, []post](maxPosts), gauge: gauge}
}

// count takes in that there are that many more posts. The caller holds the lock.
func (n *posts) count(more int) {
	n.n += more
	n.gauge.Set(float64(n.n))
}

func (n *posts) add(x post) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all, _ := n.items.Peek(x.item)
	if len(all) == maxPostsPerObject {
		n.count(-1)
		all = slices.Delete(all, 0, 1)
	}
	n.items.Add(x.item, append(all, x))
	n.count(1)
	for n.n > maxPosts {
		_, oldest, _ := n.items.RemoveOldest()
		n.count(-len(oldest))
	}
}

// take looks for a POST that covers tr, observed after prior was published, uses it up and returns the decision, nil for none. It also drops
// the older posts of the object, which no later transition may use.
//
// With left the object left the state then, and later POSTs do not count. Otherwise a POST does not count if one of another outcome followed
// it: that was told last. About a success that may have existed before it was found, of the POSTs of that time only the last one counts.
func (n *posts) take(it item, tr *transition, prior lastPublished, left time.Time) *decision {
	n.mu.Lock()
	defer n.mu.Unlock()
	all, _ := n.items.Peek(it)
	first, stays := 0, left.IsZero()
	for i, x := range all {
		if stays && tr.Outcome == event.OutcomeSucceeded && x.uid == tr.UID && x.accepted.Before(tr.found) {
			first = i
		}
	}
	place := first + slices.IndexFunc(all[first:], func(x post) bool {
		return (stays || !x.accepted.After(left)) && x.covers(tr, prior)
	})
	if place < first || stays && all[len(all)-1].contradicts(tr.state) {
		return nil
	}
	accepted := all[place].accepted
	n.keep(it, all, func(x post) bool { return x.accepted.After(accepted) })
	return &decision{result: resultPosted, told: accepted}
}

// last returns the POST about an object that was accepted last and covered no transition.
func (n *posts) last(it item) (last post, found bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all, found := n.items.Peek(it)
	if !found {
		return post{}, false
	}
	return all[len(all)-1], true
}

// drop drops the posts about an object up to an event.
func (n *posts) drop(it item, seq uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all, _ := n.items.Peek(it)
	n.keep(it, all, func(x post) bool { return x.seq > seq })
}

// keep keeps the wanted ones of all posts of an object. The caller holds the lock.
func (n *posts) keep(it item, all []post, wanted func(post) bool) {
	kept := slices.DeleteFunc(all, func(x post) bool { return !wanted(x) })
	n.count(len(kept) - len(all))
	if len(kept) > 0 {
		n.items.Add(it, kept)
	} else {
		n.items.Remove(it)
	}
}
