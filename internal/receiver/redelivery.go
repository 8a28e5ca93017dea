package receiver

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"
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

// bodyDigest identifies the raw bytes of a body within this process. It is keyed, so that no sender can make two bodies with one
// digest, and costs a fraction of what a signature does.
type bodyDigest uint64

// deliveryKey identifies a delivery of one Receiver: the sender's ID together with what was sent. The ID is signed by hardly any
// sender, so who replays somebody's webhook can put any ID on it: it must not pass for the delivery that really has that ID.
type deliveryKey [16]byte

// keyOf returns the key of a delivery, and false for one whose sender gave no ID that could be one.
func keyOf(id string, digest bodyDigest) (deliveryKey, bool) {
	if id == "" || len(id) > maxDeliveryID {
		return deliveryKey{}, false
	}
	var b [8 + maxDeliveryID]byte
	binary.BigEndian.PutUint64(b[:], uint64(digest))
	n := copy(b[8:], id)
	sum := sha256.Sum256(b[:8+n])
	return deliveryKey(sum[:16]), true
}

// redeliveries remembers the accepted deliveries of one Receiver. What it does not know, because it was forgotten, or because
// another replica accepted it, is told as a delivery like any other.
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

// has reports whether a delivery was accepted before.
func (r *redeliveries) has(key deliveryKey, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.seen {
		if r.seen[i].key == key && now.Sub(r.seen[i].at) < rememberFor {
			return true
		}
	}
	return false
}

// add remembers a delivery whose triggers are on the bus.
func (r *redeliveries) add(key deliveryKey, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 || len(r.seen) < maxRemembered && at.Sub(r.seen[r.oldest].at) < rememberFor {
		r.seen = append(r.seen, acceptance{})
		copy(r.seen[r.oldest+1:], r.seen[r.oldest:]) // capacity behind the newest
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
