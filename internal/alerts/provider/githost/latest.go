package githost

import (
	"crypto/sha256"
	"sync"
	"time"

	"notifier/internal/alerts/provider"
)

// maxLatest bounds the number of statuses, or comments, whose latest event a Provider's Sender remembers, as provider.Memory does.
const maxLatest = 2048

// sureFor is the time for which a status counts as the host's after the host had it. Another program may change it.
const sureFor = 6 * time.Hour

// latestKey names a status of a commit, or a comment on a change request.
type latestKey struct{ on, name string }

// latest remembers the statuses, or comments, that this process wrote or found on the host.
type latest struct {
	mu       sync.Mutex
	statuses *provider.Memory[latestKey, latestStatus]
}

// latestStatus is what is known of a status.
type latestStatus struct {
	// at is the time of its latest event.
	at time.Time
	// digest is that of the status that the host had at the time seen, which is zero if another may have been set since. They count for
	// notifications with the same Since alone.
	digest      digest
	seen, since time.Time
}

func (s Status) key() latestKey { return latestKey{s.Commit, s.Name} }

// digest stands for the state and the texts of a status, whose summary may be long.
type digest [sha256.Size]byte

func (s Status) digest() digest {
	return sha256.Sum256([]byte(s.State + "\x00" + s.Description + "\x00" + s.Summary))
}

// empty reports whether nothing is remembered.
func (l *latest) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.statuses == nil
}

// note records that the host has what a notification says of key. A time in the future is the sender's claim and counts as now.
func (l *latest) note(n provider.Notification, key latestKey, d digest, now time.Time) {
	at := n.Event.Timestamp
	if at.After(now) {
		at = now
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.statuses == nil {
		l.statuses = provider.NewMemory[latestKey, latestStatus](n.Event.InvolvedObject.Namespace, maxLatest)
	}
	l.statuses.Add(key, latestStatus{at: at, digest: d, seen: now, since: n.Since})
}

// doubt records that the host may have another status than the one remembered.
func (l *latest) doubt(s Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.statuses == nil {
		return
	}
	if known, ok := l.statuses.Peek(s.key()); ok {
		known.seen = time.Time{}
		l.statuses.Add(s.key(), known)
	}
}

// holds reports whether the host had the status of a notification lately.
func (l *latest) holds(n provider.Notification, s Status, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.statuses == nil {
		return false
	}
	known, ok := l.statuses.Get(s.key())
	return ok && known.digest == s.digest() && known.since.Equal(n.Since) && now.Sub(known.seen) < sureFor
}

// overtaken reports whether the status or comment was written for a later event than the one at the time at. For one that this process
// wrote it compares the event's time, for any other the time set at which the host took it.
func (l *latest) overtaken(key latestKey, at, set time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.statuses != nil {
		if known, ok := l.statuses.Get(key); ok {
			return known.at.After(at)
		}
	}
	return set.After(at)
}
