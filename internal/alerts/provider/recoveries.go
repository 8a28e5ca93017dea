package provider

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxRecoveries bounds of how many objects a Sender knows when they recovered.
const maxRecoveries = 512

// Recoveries knows which objects recovered lately, for types whose incidents stay open until a recovery is sent: a failure that was given up
// and is sent after all, once the recovery was taken, would open one that nothing closes. The zero value knows none.
type Recoveries struct {
	mu    sync.Mutex
	times *simplelru.LRU[string, time.Time]
}

// overtaken reports whether a notification is a failure that is sent after all, of an object that has recovered since.
func (r *Recoveries) overtaken(n Notification) bool {
	if !n.Replayed || !Failed(n) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.times == nil {
		return false
	}
	at, known := r.times.Get(ObjectID(n))
	return known && !at.Before(n.Event.Timestamp)
}

// sent notes a notification that was sent.
func (r *Recoveries) sent(n Notification) {
	if !Recovered(n) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.times == nil {
		r.times, _ = simplelru.NewLRU[string, time.Time](maxRecoveries, nil) // fails for no size
	}
	r.times.Add(ObjectID(n), n.Event.Timestamp)
}

// Send sends a notification unless it is overtaken, and notes it.
func (r *Recoveries) Send(n Notification, send func() error) error {
	if r.overtaken(n) {
		return nil
	}
	err := send()
	if err == nil {
		r.sent(n)
	}
	return err
}
