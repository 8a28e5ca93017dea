package alerts

import (
	"context"
	"maps"
	"time"

	"notifier/internal/event"
	"notifier/internal/fair"
)

// readsPerTick is how many Providers' dead letters a shard reads in a tick to attribute them to their Alerts.
const readsPerTick = 8

// letterCount counts the dead letters of one Provider.
type letterCount struct {
	n int
	// by counts them by the Alerts' names, test messages under none. It is nil until the dead letters were read.
	by map[string]int
	// revivable is until when a change of the Provider may be the reason to try some of them again.
	revivable time.Time
}

// attributed returns how many of them were read.
func (c *letterCount) attributed() (n int) {
	for _, of := range c.by {
		n += of
	}
	return n
}

// deadCounts counts the dead letters of a shard, and reports the numbers to the ledger. The shard's loop owns it.
type deadCounts struct {
	ledger *Ledger
	// of has the count of each Provider that has any.
	of map[event.ProviderKey]*letterCount
	// changes counts, by Provider, the dead letters that are being written or removed, until the shard knows whether they were. It has the
	// Providers whose number is zero again since the last reading of dead letters began as well.
	changes map[event.ProviderKey]int
}

// get returns the count of a Provider.
func (d *deadCounts) get(key event.ProviderKey) *letterCount {
	c := d.of[key]
	if c == nil {
		c = &letterCount{by: map[string]int{}}
		d.of[key] = c
	}
	return c
}

// revivable reports whether a Provider has dead letters that may be worth another try after a change.
func (d *deadCounts) revivable(key event.ProviderKey, now time.Time) bool {
	c := d.of[key]
	return c != nil && !now.After(c.revivable)
}

// recount takes in the number of dead letters of each Provider of the shard. Where it differs from the count here, their Alerts are to be
// read again: the bus drops the oldest on its own. It leaves out the Providers of changes: the numbers may have these, or not.
func (d *deadCounts) recount(providers map[event.ProviderKey]int) {
	for key, n := range providers {
		c := d.of[key]
		if _, changes := d.changes[key]; !changes && (c == nil || c.n != n || c.by != nil && c.attributed() != n) {
			d.set(key, n, nil)
		}
	}
	for key := range d.of {
		_, there := providers[key]
		if _, changes := d.changes[key]; !there && !changes {
			d.set(key, 0, nil)
		}
	}
}

// set sets the number of a Provider's dead letters, and how many of them are of each Alert, nil if that is to be read.
func (d *deadCounts) set(key event.ProviderKey, n int, by map[string]int) {
	if n == 0 {
		by = map[string]int{}
	}
	c := d.get(key)
	d.ledger.count(objectName{kindProvider, key.Namespace, key.Provider}, 0, n-c.n)
	for alert, n := range c.by {
		d.ledger.count(objectName{kindAlert, key.Namespace, alert}, 0, -n)
	}
	for alert, n := range by {
		d.ledger.count(objectName{kindAlert, key.Namespace, alert}, 0, n)
	}
	switch {
	case by == nil && c.by != nil:
		d.ledger.unlearned(key.Namespace, 1)
	case by != nil && c.by == nil:
		d.ledger.unlearned(key.Namespace, -1)
	}
	if c.n, c.by = n, by; n == 0 {
		delete(d.of, key)
	}
}

// add adds n to the dead letters of a Provider and an Alert; n is -1 for a replayed one.
func (d *deadCounts) add(key event.ProviderKey, alert string, n int) {
	if n < 0 && d.of[key] == nil {
		return // another replay removed it as well
	}
	c := d.get(key)
	c.n += n
	d.ledger.count(objectName{kindProvider, key.Namespace, key.Provider}, 0, n)
	if c.by != nil && (n > 0 || c.by[alert] > 0) {
		if c.by[alert] += n; c.by[alert] <= 0 {
			delete(c.by, alert)
		}
		d.ledger.count(objectName{kindAlert, key.Namespace, alert}, 0, n)
	}
	if c.n <= 0 {
		d.set(key, 0, nil)
	}
}

// unread returns Providers whose dead letters are to be read, up to readsPerTick of them, of which namespaces take turns.
func (d *deadCounts) unread() (unread []event.ProviderKey) {
	turns := fair.NewQueue(func(key event.ProviderKey) string { return key.Namespace })
	for key, c := range d.of {
		if c.by == nil {
			turns.Push(key)
		}
	}
	for turns.Len() > 0 && len(unread) < readsPerTick {
		unread = append(unread, turns.Pop())
	}
	return unread
}

// expectDead counts the dead letters of each Provider at takeover, and allows replays for ReplayWindow: a Provider may have been mended
// while the shard had no owner.
func (s *shard) expectDead(ctx context.Context, now time.Time) error {
	providers, err := s.Bus.DeadProviders(ctx, s.number)
	if err != nil {
		return err
	}
	s.dead.recount(providers)
	for _, c := range s.dead.of {
		c.revivable = now.Add(s.ReplayWindow)
	}
	s.makeRevivable(now)
	return nil
}

// makeRevivable makes a queue for each Provider that exists and has dead letters that may be worth another try. That of a Provider that does
// not exist is dropped at once: an Alert can name any number of them (invariant T6).
func (s *shard) makeRevivable(now time.Time) (made []*queue) {
	for key, c := range s.dead.of {
		if s.ReplayWindow > 0 && now.Before(c.revivable) && s.queues[key] == nil && s.Destinations.Get(key.Namespace, key.Provider) != nil {
			made = append(made, s.queue(key.Namespace, key.Provider, now))
		}
	}
	return made
}

// readLetters reads the Alerts of dead letters, of readsPerTick Providers at a time. With again it also counts the dead letters of each
// Provider anew before that, and those of Providers that change meanwhile at a later tick.
func (s *shard) readLetters(work context.Context, again bool) {
	unread := s.dead.unread()
	again = again || s.recountSoon
	if s.readingLetters || len(unread) == 0 && !again {
		return
	}
	s.readingLetters, s.recountSoon = true, false
	maps.DeleteFunc(s.dead.changes, func(_ event.ProviderKey, n int) bool { return n == 0 })
	s.spawn(func() {
		if again {
			if providers, err := s.Bus.DeadProviders(work, s.number); err == nil {
				s.post(func() { s.dead.recount(providers) })
			}
		}
		for _, key := range unread { // each to its end, however many it has: else it would never be read
			by := map[string]int{}
			err := s.eachDead(work, key, time.Time{}, func(l *event.Dead) { by[l.Delivery.Alert]++ })
			if err != nil {
				s.log.Debug("dead letters not counted, it will be tried again", "namespace", key.Namespace, "provider", key.Provider, "error", err)
				continue
			}
			s.post(func() {
				if c := s.dead.of[key]; c != nil {
					s.dead.set(key, c.n, by)
				}
			})
		}
		s.post(func() { s.readingLetters, s.recountSoon = false, len(s.dead.changes) > 0 })
	})
}
