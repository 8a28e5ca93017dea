package provider

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxRecoveries bounds the number of objects whose recovery a Sender remembers.
const maxRecoveries = 512

// Recoveries remembers the objects that recovered lately, for types whose incidents stay open until a recovery is sent. A failure that
// was given up and is replayed after the recovery was sent would open an incident that nothing closes. The zero value remembers none.
type Recoveries struct {
	mu    sync.Mutex
	times *simplelru.LRU[string, time.Time]
}

// overtaken reports whether a notification is a replayed failure of an object that has recovered since.
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

// sent remembers the recovery in a notification that was sent.
func (r *Recoveries) sent(n Notification) {
	if !Recovered(n) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.times == nil {
		r.times, _ = simplelru.NewLRU[string, time.Time](maxRecoveries, nil) // fails only for a size below one
	}
	r.times.Add(ObjectID(n), n.Event.Timestamp)
}

// Send calls send unless the notification is overtaken, and remembers a recovery that was sent.
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
