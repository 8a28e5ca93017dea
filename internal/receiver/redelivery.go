package receiver

import (
	"slices"
	"sync"
	"time"
)

const (
	// rememberFor is the time for which an accepted webhook is recognised when it is sent again.
	rememberFor = 5 * time.Minute
	// maxRemembered bounds the webhooks that are remembered of one Receiver; the oldest is evicted first. At 40 bytes each that is 10 KiB for
	// a busy Receiver, and nothing for a Receiver that was quiet for rememberFor.
	maxRemembered = 256
)

// bodyDigest identifies the raw bytes of a body within this process. It is keyed, so that no sender can make two bodies with one digest,
// and costs a fraction of a signature.
type bodyDigest uint64

// deliveryKey identifies a webhook of one Receiver: by the digest of the sender's ID together with that of the body. Hardly any sender
// signs the ID, so a replayed body can carry any ID. It must not be taken for the webhook that really has that ID.
type deliveryKey struct {
	body bodyDigest
	id   uint64
}

// redeliveries remembers the accepted webhooks of one Receiver. A repeat of a webhook that it lacks, because it was evicted or because
// another replica accepted it, is not reported as a duplicate.
type redeliveries struct {
	mu sync.Mutex
	// seen is a ring in the order of acceptance: it begins at index oldest.
	seen   []acceptance
	oldest int
}

type acceptance struct {
	key deliveryKey
	at  time.Time
}

// has reports whether a webhook was accepted before.
func (r *redeliveries) has(key deliveryKey, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.seen, func(a acceptance) bool { return a.key == key && now.Sub(a.at) < rememberFor })
}

// add remembers a webhook whose triggers are on the bus.
func (r *redeliveries) add(key deliveryKey, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 || len(r.seen) < maxRemembered && at.Sub(r.seen[r.oldest].at) < rememberFor {
		r.seen = append(r.seen, acceptance{})
		copy(r.seen[r.oldest+1:], r.seen[r.oldest:]) // make space after the newest
	}
	r.seen[r.oldest] = acceptance{key, at}
	r.oldest = (r.oldest + 1) % len(r.seen)
}

// expire frees the memory when all entries are older than rememberFor.
func (r *redeliveries) expire(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.seen); n > 0 && now.Sub(r.seen[(r.oldest+n-1)%n].at) >= rememberFor {
		r.seen, r.oldest = nil, 0
	}
}
