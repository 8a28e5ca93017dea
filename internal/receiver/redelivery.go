package receiver

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	"notifier/internal/event"
)

const (
	// rememberFor is how long a delivery is recognised when it is sent again.
	rememberFor = 5 * time.Minute
	// maxRemembered bounds the deliveries that are remembered of one Receiver; the oldest is forgotten first. With 40 bytes each
	// that is 10 KiB for a Receiver that is busy, and nothing for one that was quiet for rememberFor.
	maxRemembered = 256
	// maxDeliveryID bounds in bytes what is taken for a delivery's ID. Senders' IDs are UUIDs and the like.
	maxDeliveryID = 256
)

// bodyPrint identifies the raw bytes of a body within this process. It is keyed, so that no sender can make two bodies with one
// print, and costs a fraction of what a signature does.
type bodyPrint uint64

// deliveryKey identifies a delivery of one Receiver: the sender's ID together with what was sent. The ID is signed by hardly any
// sender, so who replays somebody's webhook can put any ID on it: it must not pass for the delivery that really has that ID.
type deliveryKey [16]byte

// keyOf returns the key of a delivery, and false for one whose sender gave no ID that could be one.
func keyOf(id string, print bodyPrint) (deliveryKey, bool) {
	if id == "" || len(id) > maxDeliveryID {
		return deliveryKey{}, false
	}
	var b [8 + maxDeliveryID]byte
	binary.BigEndian.PutUint64(b[:], uint64(print))
	n := copy(b[8:], id)
	sum := sha256.Sum256(b[:8+n])
	return deliveryKey(sum[:16]), true
}

// redeliveries remembers the accepted deliveries of one Receiver. What it does not know, because it was forgotten, or because
// another replica accepted it, is a delivery like any other: recognising one saves work and is never needed.
type redeliveries struct {
	mu sync.Mutex
	// seen is in the order of acceptance from index oldest on, and from its beginning again.
	seen   []acceptance
	oldest int
}

type acceptance struct {
	key deliveryKey
	at  time.Time
}

// find returns when a delivery was first accepted.
func (r *redeliveries) find(key deliveryKey, now time.Time) (first time.Time, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.seen {
		if r.seen[i].key == key && now.Sub(r.seen[i].at) < rememberFor {
			return r.seen[i].at, true
		}
	}
	return time.Time{}, false
}

// add remembers a delivery whose triggers are on the bus.
func (r *redeliveries) add(key deliveryKey, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 || len(r.seen) < maxRemembered && at.Sub(r.seen[r.oldest].at) < rememberFor {
		r.seen = append(r.seen, acceptance{})
		copy(r.seen[r.oldest+1:], r.seen[r.oldest:]) // room behind the newest
	}
	r.seen[r.oldest] = acceptance{key, at}
	r.oldest = (r.oldest + 1) % len(r.seen)
}

// expire gives the memory back when all is too old to count.
func (r *redeliveries) expire(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.seen); n > 0 && now.Sub(r.seen[(r.oldest+n-1)%n].at) >= rememberFor {
		r.seen, r.oldest = nil, 0
	}
}

// asked knows as of when the target of a trigger was last asked to reconcile, as far as this replica did the asking. It is shared
// by the Receivers of a namespace that have the target, and kept as long as there are any.
type asked struct {
	receivers int // guarded by the Table's lock

	mu sync.Mutex
	// stamp is what the request was stamped with or earlier, told when this was learnt. The clock may be set back, so neither
	// says it all: stamp may be of before that, and told of another trigger.
	stamp, told time.Time
}

func (a *asked) set(stamp, told time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stamp, a.told = stamp, told
}

// since reports whether the target was asked for a webhook accepted at the given time, or for a later one.
func (a *asked) since(accepted time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.stamp.Before(accepted) && !a.told.Before(accepted)
}

// askedSince reports whether every target of the triggers was asked to reconcile since a time. It decides about the triggers that
// a repeat would publish now, and not about those of the first delivery: what the Receiver selects may have changed, and what was
// triggered then and is no more now stays on the bus until it is applied.
func (rt *route) askedSince(triggers []event.Trigger, accepted time.Time) bool {
	for i := range triggers {
		if a := rt.asked[triggers[i].Key]; a == nil || !a.since(accepted) {
			return false
		}
	}
	return true
}

// Applied tells that all objects of the target that triggers of a namespace have under a key (event.Trigger.Key) were asked to
// reconcile, stamped no earlier than stamp. Only what is told here can make a repeated delivery trigger nothing, so a replica that
// does not apply the triggers it accepts publishes those of a repeat again.
func (t *Table) Applied(namespace, key string, stamp time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.tenants[namespace]; n != nil {
		if a := n.asked[key]; a != nil {
			a.set(stamp, time.Now())
		}
	}
}

// ask returns what is known about the targets of hooks, one of which each Receiver is counted in once. The lock is held.
func (n *tenant) ask(hooks []*Hook) map[string]*asked {
	mine := make(map[string]*asked)
	for _, h := range hooks {
		for i := range h.Targets {
			key := h.Targets[i].Key
			if mine[key] != nil {
				continue
			}
			a := n.asked[key]
			if a == nil {
				a = new(asked)
				n.asked[key] = a
			}
			a.receivers++
			mine[key] = a
		}
	}
	return mine
}

// drop ends a Receiver's use of what ask returned. The lock is held.
func (n *tenant) drop(mine map[string]*asked) {
	for key, a := range mine {
		if a.receivers--; a.receivers == 0 {
			delete(n.asked, key)
		}
	}
}
