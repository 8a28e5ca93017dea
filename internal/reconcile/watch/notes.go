package watch

import (
	"container/list"
	"sync"
	"time"

	"notifier/internal/event"
)

// The bounds on notes. Beyond either the oldest note goes first, of the object or of all: a note that is missing lets a
// transition be told twice, one too many could keep it from being told, so forgetting is the safe side.
const (
	maxNotesPerObject = 16
	maxNotes          = 1 << 16
)

// note remembers an accepted POST as long as a transition may turn out to be told by it.
type note struct {
	item     item
	uid      string
	outcome  event.Outcome
	accepted time.Time
	// message is how the event's message begins, revision what it is about if it says so.
	message, revision string
}

func noteOf(it item, r *event.Record) note {
	return note{
		item: it, uid: r.Event.InvolvedObject.UID, outcome: r.Outcome, accepted: r.Accepted,
		message: r.Event.Message, revision: r.Event.Revision(),
	}
}

// noteLead is by how much a POST may be older than the state that it is about: controllers say how a reconciliation ended before they
// write it, and write it once the POST is answered.
const noteLead = 10 * time.Second

// tells reports whether the POST told tr, observed after prior was told. It counts if it has the UID and the outcome of tr and is not
// older than the observation of prior. Who can reach the door and knows the UID can forge that (invariant E9), so more is asked for:
// of a failure that the object itself says the same, which nobody can know before; of a success that it was not said long before.
func (x note) tells(tr *transition, prior lastPublished) bool {
	switch {
	case x.uid != tr.UID, x.outcome != tr.Outcome, x.accepted.Before(prior.Observed):
		return false
	case x.revision != "" && tr.Revision != "" && x.revision != tr.Revision:
		return false
	case tr.Outcome == event.OutcomeFailed:
		return tr.object.tells(x.message)
	default:
		return !x.accepted.Before(tr.observed.Add(-noteLead))
	}
}

// notes are the POSTs that were not used up, in the order they were accepted. Accepted is the clock of the replica that took
// the POST, the times it is compared with are this one's: the replicas' clocks are taken to agree within a second or so.
type notes struct {
	mu sync.Mutex
	// all holds every note, oldest first; byItem the elements of all that are about one object, oldest first.
	all    *list.List
	byItem map[item][]*list.Element
}

func newNotes() *notes {
	return &notes{all: list.New(), byItem: map[item][]*list.Element{}}
}

func (n *notes) add(x note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.byItem[x.item] = append(n.byItem[x.item], n.all.PushBack(x))
	if len(n.byItem[x.item]) > maxNotesPerObject {
		n.removeOldest(x.item)
	}
	if n.all.Len() > maxNotes {
		n.removeOldest(n.all.Front().Value.(note).item)
	}
}

func (n *notes) removeOldest(it item) {
	elements := n.byItem[it]
	n.all.Remove(elements[0])
	if len(elements) == 1 {
		delete(n.byItem, it)
		return
	}
	n.byItem[it] = elements[1:]
}

// take looks for a POST by which tr, observed after prior was told, is told already, and uses it up. With it go all notes that
// no later transition may use: those older than the one used, and those older than the observation of tr.
func (n *notes) take(it item, tr *transition, prior lastPublished) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	used := time.Time{}
	var kept []*list.Element
	for _, e := range n.byItem[it] {
		x := e.Value.(note)
		if used.IsZero() && x.tells(tr, prior) {
			used = x.accepted
			n.all.Remove(e)
			continue
		}
		kept = append(kept, e)
	}
	n.byItem[it] = kept
	n.drop(it, tr.observed)
	n.drop(it, used)
	return !used.IsZero()
}

// forget drops the notes by which a state is told that the object has left.
func (n *notes) forget(it item, uid string, outcome event.Outcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.remove(it, func(x note) bool { return x.uid == uid && x.outcome == outcome })
}

// drop forgets the object's notes accepted before a time.
func (n *notes) drop(it item, before time.Time) {
	n.remove(it, func(x note) bool { return x.accepted.Before(before) })
}

func (n *notes) remove(it item, unwanted func(note) bool) {
	var kept []*list.Element
	for _, e := range n.byItem[it] {
		if unwanted(e.Value.(note)) {
			n.all.Remove(e)
			continue
		}
		kept = append(kept, e)
	}
	if len(kept) == 0 {
		delete(n.byItem, it)
		return
	}
	n.byItem[it] = kept
}

func (n *notes) len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all.Len()
}
