package apply

import (
	"container/heap"
	"time"
)

// attempt is one job's claim to a request for one object. The Applier's lock guards it.
type attempt struct {
	job *job
	// inFlight says that its request is being sent.
	inFlight bool
	// notBefore is when it may be tried (again); floor is until when the server asked to be left alone. Who changes them while the
	// claim waits calls slot.moved.
	notBefore, floor time.Time
	// pause is the pause after the last answer that was no success.
	pause time.Duration
	// place is where it is among the waiting, turn how many came before it.
	place int
	turn  uint64
}

func (at *attempt) due() time.Time {
	if at.floor.After(at.notBefore) {
		return at.floor
	}
	return at.notBefore
}

// slot is one object's place in time: it gets one request per interval.
type slot struct {
	// last is when the last request was answered.
	last time.Time
	// waiting are the claims. The one being tried stays among them.
	waiting claims
	turns   uint64
}

// wait adds a claim, behind those that are due at the same time.
func (s *slot) wait(at *attempt) {
	at.turn = s.turns
	s.turns++
	heap.Push(&s.waiting, at)
}

// leave takes a claim off.
func (s *slot) leave(at *attempt) { heap.Remove(&s.waiting, at.place) }

// moved puts a claim in order whose time has changed.
func (s *slot) moved(at *attempt) { heap.Fix(&s.waiting, at.place) }

// claims are a heap: the one that is due first is at the front, of several the one that came first. A tenant decides how many there
// are, and each is looked at under the Applier's lock, so nothing goes through them all for the sake of one.
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

// Push is heap's.
func (c *claims) Push(x any) {
	at := x.(*attempt) //nolint:forcetypeassert // nothing else is pushed
	at.place = len(*c)
	*c = append(*c, at)
}

// Pop is heap's.
func (c *claims) Pop() any {
	last := len(*c) - 1
	at := (*c)[last]
	(*c)[last] = nil
	*c = (*c)[:last]
	return at
}
