package provider

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxRecoveries bounds the number of objects whose recovery a Sender remembers, as Memory does. With more objects than that, each
	// recovery that only closes is sent.
	maxRecoveries = 2048
	// maxClosings bounds the number of Alerts whose recovery of one object a Sender remembers.
	maxClosings = 16
)

// Recoveries remembers the objects that failed or recovered lately, for types whose incidents stay open until a recovery is sent. By that
// it leaves out three kinds of notifications. A failure that was given up and is replayed after the recovery was sent would open an
// incident that nothing closes. A recovery that is replayed after a newer failure was sent would close the incident of that. A recovery
// that only closes (ClosesOnly) changes nothing if an earlier recovery closed already and no failure was sent since. The zero value
// remembers none.
type Recoveries struct {
	mu      sync.Mutex
	objects *Memory[string, *recovery]
}

// recovery is what is known about one object. A failure of the object replaces it.
type recovery struct {
	// at is the time of the newest recovery that was sent, and failed that of the newest failure, each zero if there was none.
	at, failed time.Time
	// closed has the UIDs of the Alerts whose recovery was sent since the last failure of the object. The incidents of two Alerts may
	// differ (type alertmanager). It counts for notifications with the same Since alone.
	closed []string
	since  time.Time
}

// get returns what is known about the object of a notification, nil if nothing is.
func (r *Recoveries) get(n Notification) *recovery {
	if r.objects == nil {
		return nil
	}
	known, _ := r.objects.Get(ObjectID(n))
	return known
}

func (r *Recoveries) put(n Notification, known *recovery) {
	if r.objects == nil {
		r.objects = NewMemory[string, *recovery](n.Event.InvolvedObject.Namespace, maxRecoveries)
	}
	r.objects.Add(ObjectID(n), known)
}

// overtaken reports whether a notification is a replayed failure of an object that has recovered since, or a replayed recovery of one
// that has failed since.
func (r *Recoveries) overtaken(n Notification) bool {
	if !n.Replayed {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch known := r.get(n); {
	case known == nil:
		return false
	case Failed(n):
		return !known.at.IsZero() && !known.at.Before(n.Event.Timestamp)
	default:
		return Recovered(n) && known.failed.After(n.Event.Timestamp)
	}
}

// Outdated reports whether a notification is a replayed failure of an object of which a newer failure was sent. It is called while the
// notification is sent.
func (r *Recoveries) Outdated(n Notification) bool {
	if !n.Replayed || !Failed(n) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.get(n)
	return known != nil && known.failed.After(n.Event.Timestamp)
}

// Needless reports whether a notification only closes what is closed already. With it a Sender that embeds Recoveries is Sparing.
func (r *Recoveries) Needless(n Notification) bool {
	if !ClosesOnly(n) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.get(n)
	return known != nil && known.since.Equal(n.Since) && slices.Contains(known.closed, n.AlertUID)
}

// begin is called before a notification is sent. A failure that is sent without an answer may have opened an incident as well. So the
// object counts as open from here on. For a recovery it returns the object's entry, by which end sees whether a failure was sent
// meanwhile.
func (r *Recoveries) begin(n Notification) *recovery {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.get(n)
	switch {
	case Failed(n):
		next := &recovery{failed: n.Event.Timestamp}
		if known != nil {
			next.at = known.at
			if known.failed.After(next.failed) {
				next.failed = known.failed
			}
		}
		r.put(n, next)
	case Recovered(n) && known == nil:
		known = new(recovery)
		r.put(n, known)
	}
	return known
}

// Doubt says of a recovery that is being sent that it may leave open what it should close: the next one is not needless.
func (r *Recoveries) Doubt(n Notification) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.get(n); known != nil {
		r.put(n, &recovery{at: known.at, failed: known.failed})
	}
}

// end remembers a recovery that was sent.
func (r *Recoveries) end(n Notification, begun *recovery) {
	if !Recovered(n) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.get(n)
	if known == nil {
		r.put(n, &recovery{at: n.Event.Timestamp})
		return
	}
	if n.Event.Timestamp.After(known.at) { // a replayed recovery may be older
		known.at = n.Event.Timestamp
	}
	if known != begun {
		return
	}
	if !known.since.Equal(n.Since) {
		known.since, known.closed = n.Since, nil
	}
	if slices.Contains(known.closed, n.AlertUID) {
		return
	}
	if len(known.closed) == maxClosings {
		known.closed = known.closed[1:]
	}
	known.closed = append(known.closed, n.AlertUID)
}

// Send calls send unless the notification is overtaken or needless, and remembers a recovery that was sent.
func (r *Recoveries) Send(n Notification, send func() error) error {
	if r.overtaken(n) || r.Needless(n) {
		return nil
	}
	begun := r.begin(n)
	err := send()
	if err == nil {
		r.end(n, begun)
	}
	return err
}
