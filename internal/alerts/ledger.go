package alerts

import (
	"slices"
	"sync"
	"time"

	"notifier/internal/event"
)

const (
	// newsGap is the least time between two tellings of news of one object. Each is a write of its status.
	newsGap = 10 * time.Second
	// matchedStep is the least time between two tellings that an Alert selects events, if nothing else is news.
	matchedStep = 10 * time.Minute
)

// Ledger has what is known of Alerts and Providers at work, in the memory of the worker: its Router and its Deliverer write, and who writes
// status follows. What is read is what was told last, so that an object that always has news is not read anew all the time. Its memory is
// bounded by the objects that there are: about 1 KB each with one delivery, 4 KB at most.
type Ledger struct {
	mu       sync.Mutex
	accounts map[objectName]*account
	// news are the accounts that have something to tell, and losing those that show losses, which end by themselves.
	news, losing map[objectName]struct{}
	// unread counts by namespace what is on the bus and whose Alert is not known yet.
	unread map[string]int
	// since is when the term began. counted says that what all shards have on the bus is known, and tell that it is to be told.
	since         time.Time
	counted, tell bool
	// exists, unless nil, reports whether there is an object; pruned is when that was last asked for all.
	exists func(kind, namespace, name string) bool
	pruned time.Time
	// signal has a token when there may be something to tell.
	signal chan struct{}
}

type objectName struct{ kind, namespace, name string }

// account is one object's standing, and what was told of it at a time. They are the same until there is news.
type account struct {
	is, shown *Standing
	told      time.Time
}

// NewLedger returns an empty Ledger.
func NewLedger() *Ledger {
	l := &Ledger{signal: make(chan struct{}, 1)}
	l.begin(time.Now())
	return l
}

// about has the ledger forget objects that do not exist, and tell nothing of them.
func (l *Ledger) about(exists func(kind, namespace, name string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.exists = exists
}

// begin forgets everything: a term begins, or has ended.
func (l *Ledger) begin(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accounts, l.news, l.losing = map[objectName]*account{}, map[objectName]struct{}{}, map[objectName]struct{}{}
	l.unread, l.since, l.counted, l.tell = map[string]int{}, now, false, false
}

// Get returns what was last told of an object, Counted alone where nothing was.
func (l *Ledger) Get(kind, namespace, name string) Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.counted && (kind == kindProvider || l.unread[namespace] == 0)
	a := l.accounts[objectName{kind, namespace, name}]
	switch {
	case a == nil:
		return Standing{Counted: known}
	case a.shown == nil:
		return Standing{}
	}
	s := *a.shown
	s.Counted, s.Since = known, l.since
	return s
}

// update returns the standing of an object, to be changed. With news it is told soon. The lock is held.
func (l *Ledger) update(key objectName, news bool) *Standing {
	a := l.accounts[key]
	switch {
	case a == nil:
		a = &account{is: &Standing{}}
		l.accounts[key] = a
	case a.is == a.shown:
		is := *a.shown
		is.Recent = slices.Clone(is.Recent)
		a.is = &is
	}
	if _, waits := l.news[key]; news && !waits {
		l.news[key] = struct{}{}
		l.wake()
	}
	return a.is
}

func (l *Ledger) wake() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// health notes the health of an object.
func (l *Ledger) health(kind, namespace, name, uid string, h Health) {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := l.update(objectName{kind, namespace, name}, true)
	is.renew(uid)
	is.Health = h
}

// matched notes that an Alert selected an event.
func (l *Ledger) matched(namespace, name, uid string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := objectName{kindAlert, namespace, name}
	a := l.accounts[key]
	is := l.update(key, a == nil || a.shown == nil || a.is.UID != uid || now.Sub(a.shown.Matched) >= matchedStep)
	is.renew(uid)
	is.Matched = now
}

// noted is an outcome on its way into the ledger.
type noted struct {
	Outcome
	// failure says why it is none of success, and lost that the delivery was given up.
	failure string
	lost    bool
}

// note notes an outcome of a delivery for its Alert, and for its Provider with a UID, empty if that is not known.
func (l *Ledger) note(d *event.Delivery, providerUID string, n noted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.Alert != "" {
		l.take(objectName{kindAlert, d.Namespace, d.Alert}, d.AlertUID, n, d)
	}
	if providerUID != "" {
		l.take(objectName{kindProvider, d.Namespace, d.Provider}, providerUID, n, d)
	}
}

func (l *Ledger) take(key objectName, uid string, n noted, d *event.Delivery) {
	is := l.update(key, true)
	is.renew(uid)
	is.add(n.Outcome, n.failure)
	if n.lost {
		is.lose(d.Event.InvolvedObject.String(), n.failure, n.Time)
		l.losing[key] = struct{}{}
	}
}

// count changes how many deliveries of an object wait and are dead.
func (l *Ledger) count(key objectName, pending, dead int) {
	if pending == 0 && dead == 0 || key.name == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	is := l.update(key, true)
	is.Pending, is.Dead = max(0, is.Pending+pending), max(0, is.Dead+dead)
}

// unlearned changes how many deliveries of a namespace are on the bus whose Alert is not known yet.
func (l *Ledger) unlearned(namespace string, n int) {
	if n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unread[namespace] += n; l.unread[namespace] == 0 {
		delete(l.unread, namespace)
		l.tell = l.counted
		l.wake()
	}
}

// complete says that all shards have counted what they have on the bus.
func (l *Ledger) complete() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counted, l.tell = true, true
	l.wake()
}

// incomplete says that a shard has not.
func (l *Ledger) incomplete() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counted = false
}

// expire ends the losses that are old, and reports when the next one is, zero for none. The lock is held.
func (l *Ledger) expire(now time.Time) (next time.Time) {
	for key := range l.losing {
		ends := l.accounts[key].is.Loss.At.Add(lossesShown)
		if now.Before(ends) {
			next = earlier(next, ends)
			continue
		}
		is := l.update(key, true)
		is.Loss = Loss{At: is.Loss.At}
		delete(l.losing, key)
	}
	return next
}

// prune forgets objects that are no more. The lock is held.
func (l *Ledger) prune(now time.Time) {
	if l.exists == nil || now.Sub(l.pruned) < pruneEvery {
		return
	}
	l.pruned = now
	for key, a := range l.accounts {
		if a.is.Pending == 0 && a.is.Dead == 0 && !l.exists(key.kind, key.namespace, key.name) {
			delete(l.accounts, key)
			delete(l.news, key)
			delete(l.losing, key)
		}
	}
}

// pruneEvery is how often objects that are no more are looked for, while there is news.
const pruneEvery = time.Minute
