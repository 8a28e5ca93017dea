package apply

import (
	"container/heap"
	"time"

	"notifier/internal/fair"
)

// maxClaims bounds the claims of one namespace, at some 300 bytes each. A tenant's selectors each select all its objects, and the product of
// the two numbers has no other bound. Beyond it jobs wait before their targets are resolved. A job that has begun gets all its claims, so
// jobs that begin at the same time may have more together.
const maxClaims = 16 << 10

// attempt is one job's claim to a request for one object. The term's lock protects it.
type attempt struct {
	job *job
	// notBefore is when it may be tried (again). floor is the end of the delay that the server asked for. Code that changes them while the
	// claim waits calls slot.moved.
	notBefore, floor time.Time
	// pause is the pause after the last unsuccessful answer. refused is the time of the first of the present refusals, zero for none.
	// refusedAs is the service account of the last refusal.
	pause     time.Duration
	refused   time.Time
	refusedAs string
	// place is its index in the heap, turn the number of claims that were added before it.
	place int
	turn  uint64
}

func (at *attempt) due() time.Time {
	if at.floor.After(at.notBefore) {
		return at.floor
	}
	return at.notBefore
}

// slot paces the requests for one object: one per interval.
type slot struct {
	// last is when the last request was answered, stamp its stamp.
	last, stamp time.Time
	// waiting are the claims, including the claim that is being tried. A tenant decides their number, and the term's lock is held
	// meanwhile, so no operation reads them all for the sake of one.
	waiting fair.Heap[*attempt]
	turns   uint64
}

// wait adds a claim, behind those that are due at the same time.
func (s *slot) wait(at *attempt) {
	at.turn = s.turns
	s.turns++
	heap.Push(&s.waiting, at)
}

// leave removes a claim.
func (s *slot) leave(at *attempt) { heap.Remove(&s.waiting, at.place) }

// moved restores the order after the time of a claim has changed.
func (s *slot) moved(at *attempt) { heap.Fix(&s.waiting, at.place) }

// Before implements fair.HeapItem: the claim that is due first is before the others; among equals, the earlier one.
func (at *attempt) Before(other *attempt) bool {
	if order := at.due().Compare(other.due()); order != 0 {
		return order < 0
	}
	return at.turn < other.turn
}

// drop ends a claim of a job. The caller holds the lock.
func (t *term) drop(j *job, k item) {
	delete(j.pending, k)
	if t.claims[k.namespace]--; t.claims[k.namespace] == 0 {
		delete(t.claims, k.namespace)
	}
}

// Index implements fair.HeapItem.
func (at *attempt) Index() *int { return &at.place }
