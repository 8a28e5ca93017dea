package apply

import (
	"container/heap"
	"time"
)

// attempt is one job's claim to a request for one object. The Applier's lock protects it.
type attempt struct {
	job *job
	// inFlight reports that its request is being sent.
	inFlight bool
	// notBefore is when it may be tried (again). floor is the end of the delay that the server asked for. Code that changes them while the
	// claim waits calls slot.moved.
	notBefore, floor time.Time
	// pause is the pause after the last unsuccessful answer.
	pause time.Duration
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
	// last is when the last request was answered.
	last time.Time
	// waiting are the claims, including the claim that is being tried.
	waiting claims
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

// claims are a heap with the claim that is due first at the front; among equals, the earlier one. A tenant decides their number, and
// the Applier's lock is held meanwhile, so no operation reads them all for the sake of one.
type claims []*attempt

func (c claims) Len() int { return len(c) }

func (c claims) Less(i, j int) bool {
	if order := c[i].due().Compare(c[j].due()); order != 0 {
		return order < 0
	}
	return c[i].turn < c[j].turn
}

func (c claims) Swap(i, j int) {
	c[i], c[j] = c[j], c[i]
	c[i].place, c[j].place = i, j
}

// Push implements heap.Interface.
func (c *claims) Push(x any) {
	at := x.(*attempt) //nolint:forcetypeassert // nothing else is pushed
	at.place = len(*c)
	*c = append(*c, at)
}

// Pop implements heap.Interface.
func (c *claims) Pop() any {
	last := len(*c) - 1
	at := (*c)[last]
	(*c)[last] = nil
	*c = (*c)[:last]
	return at
}
