package alerts

import (
	"context"
	"slices"
	"sync"
	"time"

	"notifier/internal/alerts/filter"
	"notifier/internal/event"
	"notifier/internal/fair"
)

const (
	// newsGap is the least time between two reports of news of one object. Each report is a write of the object's status.
	newsGap = 10 * time.Second
	// matchedStep is the least time between two reports that an Alert selects events, if it has no other news.
	matchedStep = 10 * time.Minute
	// followPause is the least time between two looks for news: news of that time is reported together.
	followPause = 200 * time.Millisecond
	// pruneEvery is how often objects that no longer exist are looked for, while there is news.
	pruneEvery = time.Minute
)

// Ledger has the current state of Alerts and Providers in the worker's memory: the Router and the Deliverer write it, and the writer of
// status follows it. Readers get the last reported state, so that an object that always has news is not read anew all the time. Memory is
// bounded by the number of objects: about 1 KB each with one delivery, 4 KB at most. Of objects that do not exist it has the counts alone.
type Ledger struct {
	// alerts and destinations have the objects that exist: the ledger forgets the others, and reports nothing about them.
	alerts       *Table
	destinations *Destinations

	mu       sync.Mutex
	accounts map[objectName]*account
	// absent has the counts of the objects that do not exist and have any. An Alert that is edited again and again can name any number of
	// Providers, of which each has a dead letter for days.
	absent map[objectName]counts
	// news are the accounts that have something to report.
	news map[objectName]struct{}
	// expensive has the Alerts whose patterns took too long, and when they last did, until they have been in time for a filter.Window.
	expensive map[objectName]time.Time
	// unread counts, by namespace, the deliveries on the bus whose Alert is not known yet.
	unread map[string]int
	// since is when the term began. counted says that the deliveries of all shards on the bus are counted, and tell that this is to be
	// reported.
	since         time.Time
	counted, tell bool
	// pruned is when objects that no longer exist were last looked for.
	pruned time.Time
	// signal has a token when there may be news.
	signal chan struct{}
}

type objectName struct{ kind, namespace, name string }

// account is one object's current Standing, and the Standing that was reported at a time. Both are the same until there is news.
type account struct {
	is, shown *Standing
	told      time.Time
}

// counts are the numbers of an object's waiting deliveries and of its dead letters.
type counts struct{ pending, dead int }

// NewLedger returns an empty Ledger of the objects in two tables.
func NewLedger(alerts *Table, destinations *Destinations) *Ledger {
	l := &Ledger{alerts: alerts, destinations: destinations, expensive: map[objectName]time.Time{}, signal: make(chan struct{}, 1)}
	l.begin(time.Now())
	return l
}

// uid returns the UID of the object of a name, and whether there is one.
func (l *Ledger) uid(key objectName) (uid string, exists bool) {
	if key.kind == kindProvider {
		if dest := l.destinations.Get(key.namespace, key.name); dest != nil {
			return dest.UID, true
		}
		return "", false
	}
	if a, known := l.alerts.Lookup(key.namespace, key.name); known {
		return a.UID, true
	}
	return "", false
}

// begin clears the ledger when a term begins or has ended.
func (l *Ledger) begin(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accounts, l.absent, l.news = map[objectName]*account{}, map[objectName]counts{}, map[objectName]struct{}{}
	l.unread, l.since, l.counted, l.tell = map[string]int{}, now, false, false
}

// Get returns the last reported Standing of an object, with Counted alone where nothing was reported.
func (l *Ledger) Get(kind, namespace, name string) Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.counted && (kind == kindProvider || l.unread[namespace] == 0)
	key := objectName{kind, namespace, name}
	a := l.accounts[key]
	switch {
	case a == nil:
		c := l.absent[key] // from before the object was made
		return Standing{Counted: known, Pending: c.pending, Dead: c.dead}
	case a.shown == nil:
		return Standing{}
	}
	s := *a.shown
	s.Counted, s.Since, s.Loss = known, l.since, s.Loss.recent(time.Now())
	return s
}

// update returns the Standing of an object for a change. With news, the change is reported soon. The caller has the lock.
func (l *Ledger) update(key objectName, news bool) *Standing {
	a := l.accounts[key]
	switch {
	case a == nil:
		c := l.absent[key]
		delete(l.absent, key)
		a = &account{is: &Standing{Pending: c.pending, Dead: c.dead}}
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

// updateOf is update for the object of a UID. It returns nil if there is no such object: late news of a deleted one is not its successor's.
func (l *Ledger) updateOf(key objectName, uid string, news bool) *Standing {
	if a := l.accounts[key]; a == nil || a.is.UID != uid {
		if live, exists := l.uid(key); !exists || live != uid {
			return nil
		}
	}
	is := l.update(key, news)
	if is.UID != uid {
		*is = Standing{UID: uid, Pending: is.Pending, Dead: is.Dead}
	}
	return is
}

func (l *Ledger) wake() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// health records the health of an object, and reports whether it is news.
func (l *Ledger) health(kind, namespace, name, uid string, h Health) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := objectName{kind, namespace, name}
	if a := l.accounts[key]; a != nil && a.is.UID == uid && a.is.Health == h {
		return false
	}
	is := l.updateOf(key, uid, true)
	if is != nil {
		is.Health = h
	}
	return is != nil
}

// cutShort records that the patterns of an Alert took too long, and reports whether that is news.
func (l *Ledger) cutShort(a *Alert, now time.Time) (news bool) {
	l.mu.Lock()
	l.expensive[objectName{kindAlert, a.Namespace, a.Name}] = now
	l.mu.Unlock()
	return l.health(kindAlert, a.Namespace, a.Name, a.UID, Health{
		State: StateFailing, Reason: ReasonPatternsTimed,
		Message: "inclusionList and exclusionList of the namespace's Alerts took too long; meanwhile events pass unfiltered",
	})
}

// endExpensive records the Alerts whose patterns are in time again, and returns when to look for the others, next at the latest. The caller
// has the lock.
func (l *Ledger) endExpensive(now, next time.Time) time.Time {
	for key, last := range l.expensive {
		if ends := last.Add(filter.Window); ends.After(now) {
			next = earlier(next, ends)
			continue
		}
		delete(l.expensive, key)
		uid, exists := l.uid(key)
		if !exists {
			continue
		}
		if is := l.updateOf(key, uid, true); is != nil { // it may just have been deleted
			is.Health = Health{
				State: StateOK, Reason: ReasonPatternsInTime, Message: "inclusionList and exclusionList are evaluated in time",
			}
		}
	}
	return next
}

// matched records that an Alert selected an event.
func (l *Ledger) matched(namespace, name, uid string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := objectName{kindAlert, namespace, name}
	a := l.accounts[key]
	if is := l.updateOf(key, uid, a == nil || a.shown == nil || a.is.UID != uid || now.Sub(a.shown.Matched) >= matchedStep); is != nil {
		is.Matched = now
	}
}

// note records the outcome of a delivery for its Alert, and for its Provider unless dest is nil.
func (l *Ledger) note(d *event.Delivery, dest *Destination, v verdict, now time.Time) {
	o := outcomeOf(d, v, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.Alert != "" {
		l.take(objectName{kindAlert, d.Namespace, d.Alert}, d.AlertUID, d, o, v.reason)
	}
	if dest != nil && dest.UID != "" {
		l.take(objectName{kindProvider, d.Namespace, d.Provider}, dest.UID, d, o, v.reason)
	}
}

func (l *Ledger) take(key objectName, uid string, d *event.Delivery, o Outcome, failure string) {
	is := l.updateOf(key, uid, true)
	if is == nil {
		return
	}
	is.add(o, failure)
	if n := len(d.Tries); n > 0 && o.Result == outcomeRetry {
		is.NextTry = d.Tries[n-1].Next
	}
	if o.Result == outcomeDead && !d.Test {
		is.Loss = Loss{Count: is.Loss.recent(o.Time).Count + 1, At: o.Time, Object: d.Event.InvolvedObject.String(), Reason: failure}
	}
}

// count changes the number of an object's waiting deliveries and dead letters.
func (l *Ledger) count(key objectName, pending, dead int) {
	if pending == 0 && dead == 0 || key.name == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accounts[key] == nil {
		if _, exists := l.uid(key); !exists {
			c := l.absent[key]
			l.setAbsent(key, counts{max(0, c.pending+pending), max(0, c.dead+dead)})
			return
		}
	}
	is := l.update(key, true)
	is.Pending, is.Dead = max(0, is.Pending+pending), max(0, is.Dead+dead)
}

// setAbsent sets the counts of an object that does not exist. The caller has the lock.
func (l *Ledger) setAbsent(key objectName, c counts) {
	if l.absent[key] = c; c == (counts{}) {
		delete(l.absent, key)
	}
}

// unlearned changes the number of a namespace's deliveries on the bus whose Alert is not known yet.
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

// setCounted records whether all shards have counted their deliveries on the bus.
func (l *Ledger) setCounted(all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counted = all; all {
		l.tell = true
		l.wake()
	}
}

// prune forgets objects that no longer exist, but for their counts. The caller has the lock.
func (l *Ledger) prune(now time.Time) {
	if now.Sub(l.pruned) < pruneEvery {
		return
	}
	l.pruned = now
	for key, a := range l.accounts {
		if _, exists := l.uid(key); !exists {
			l.setAbsent(key, counts{a.is.Pending, a.is.Dead})
			delete(l.accounts, key)
			delete(l.news, key)
		}
	}
}

// Follow calls changed for each object that has news, at most every newsGap and within about that time. It calls all when counts that
// were unknown may have become known for any object. It runs until ctx ends. There is one follower at a time.
func (l *Ledger) Follow(ctx context.Context, changed func(kind, namespace, name string), all func()) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.signal:
		case <-timer.C:
		}
		told, everything, next := l.publish(time.Now())
		if everything {
			all()
		}
		for _, key := range told {
			changed(key.kind, key.namespace, key.name)
		}
		timer.Reset(max(followPause, time.Until(next)))
		if fair.Sleep(ctx, followPause) != nil {
			return
		}
	}
}

// publish makes the news that is due visible. It returns the objects with news, whether every object is to be read, and when to look
// again.
func (l *Ledger) publish(now time.Time) (told []objectName, everything bool, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prune(now)
	next = l.endExpensive(now, now.Add(time.Hour))
	for key := range l.news {
		a := l.accounts[key]
		if due := a.told.Add(newsGap); due.After(now) {
			next = earlier(next, due)
			continue
		}
		a.shown, a.told = a.is, now
		delete(l.news, key)
		if _, exists := l.uid(key); exists { // an Alert may name any Provider
			told = append(told, key)
		}
	}
	everything, l.tell = l.tell, false
	return told, everything, next
}
