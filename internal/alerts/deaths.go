package alerts

import (
	"context"
	"time"

	"notifier/internal/event"
)

// readsPerTick is how many Providers' dead letters a shard reads in a tick to attribute them to their Alerts.
const readsPerTick = 8

// letters counts the dead letters of one Provider.
type letters struct {
	count int
	// by counts them by the Alerts' names, test messages under none. It is nil until the dead letters were read.
	by map[string]int
	// revivable is until when a change of the Provider may be the reason to try some of them again.
	revivable time.Time
}

// attributed returns how many of them were read.
func (l *letters) attributed() (n int) {
	for _, of := range l.by {
		n += of
	}
	return n
}

// expectDead counts the dead letters of each Provider at takeover, and allows replays for ReplayWindow: a Provider may have been mended
// while the shard had no owner.
func (s *shard) expectDead(ctx context.Context, now time.Time) error {
	providers, err := s.Dead.DeadProviders(ctx, s.number)
	if err != nil {
		return err
	}
	s.recount(providers)
	for _, l := range s.letters {
		l.revivable = now.Add(s.ReplayWindow)
	}
	s.makeRevivable(now)
	return nil
}

// makeRevivable makes a queue for each Provider that exists and has dead letters that may be worth another try. That of a Provider that does
// not exist is dropped at once: an Alert can name any number of them (invariant T6).
func (s *shard) makeRevivable(now time.Time) (made []*queue) {
	for key, l := range s.letters {
		if s.ReplayWindow > 0 && now.Before(l.revivable) && s.queues[key] == nil && s.Destinations.Get(key.namespace, key.name) != nil {
			made = append(made, s.queue(key.namespace, key.name, now))
		}
	}
	return made
}

// revivable reports whether a Provider has dead letters that may be worth another try after a change.
func (s *shard) revivable(key destinationKey, now time.Time) bool {
	l := s.letters[key]
	return l != nil && !now.After(l.revivable)
}

// recount takes in the number of dead letters of each Provider of the shard. Where it differs from the count here, their Alerts are to be
// read again: the bus drops the oldest on its own. It leaves out the Providers of unsettled: the numbers may have their changes, or not.
func (s *shard) recount(providers map[event.ProviderKey]int) {
	for p, n := range providers {
		key := destinationKey{p.Namespace, p.Provider}
		if s.unsettled[key] {
			continue
		}
		if l := s.letters[key]; l == nil || l.count != n || l.by != nil && l.attributed() != n {
			s.setLetters(key, n)
		}
	}
	for key, l := range s.letters {
		_, there := providers[event.ProviderKey{Namespace: key.namespace, Provider: key.name}]
		if !there && l.count > 0 && !s.unsettled[key] {
			s.setLetters(key, 0)
		}
	}
}

// changing records that n dead letters of a Provider are being written or removed. For each of them changed is called.
func (s *shard) changing(key destinationKey, n int) {
	if n == 0 {
		return
	}
	s.changes[key] += n
	s.unsettled[key] = true
}

// changed records that the shard knows whether a dead letter was written or removed.
func (s *shard) changed(key destinationKey) {
	if s.changes[key]--; s.changes[key] == 0 {
		delete(s.changes, key)
	}
}

// settle forgets the changes that have ended.
func (s *shard) settle() {
	clear(s.unsettled)
	for key := range s.changes {
		s.unsettled[key] = true
	}
}

// setLetters sets the number of a Provider's dead letters, whose Alerts are to be read.
func (s *shard) setLetters(key destinationKey, n int) {
	l := s.lettersOf(key)
	s.Reports.count(objectName{kindProvider, key.namespace, key.name}, 0, n-l.count)
	l.count = n
	switch {
	case n == 0:
		s.attribute(key, map[string]int{})
		delete(s.letters, key)
	case l.by == nil:
	default:
		s.Reports.unlearned(key.namespace, 1)
		s.forgetAlerts(key, l)
		l.by = nil
	}
}

// lettersOf returns the counts of a Provider.
func (s *shard) lettersOf(key destinationKey) *letters {
	l := s.letters[key]
	if l == nil {
		l = &letters{by: map[string]int{}}
		s.letters[key] = l
	}
	return l
}

// forgetAlerts subtracts a Provider's dead letters from the counts of their Alerts.
func (s *shard) forgetAlerts(key destinationKey, l *letters) {
	for alert, n := range l.by {
		s.Reports.count(objectName{kindAlert, key.namespace, alert}, 0, -n)
	}
}

// attribute takes in the number of a Provider's dead letters by Alert.
func (s *shard) attribute(key destinationKey, by map[string]int) {
	l := s.letters[key]
	if l == nil {
		return
	}
	s.forgetAlerts(key, l)
	for alert, n := range by {
		s.Reports.count(objectName{kindAlert, key.namespace, alert}, 0, n)
	}
	if l.by == nil {
		s.Reports.unlearned(key.namespace, -1)
	}
	l.by = by
}

// died adds n to the dead letters of a delivery's Provider and Alert; n is -1 for a replayed one.
func (s *shard) died(d *event.Delivery, n int) {
	key := destinationKey{d.Namespace, d.Provider}
	if n < 0 && s.letters[key] == nil {
		return // another replay removed it as well
	}
	l := s.lettersOf(key)
	l.count += n
	s.Reports.count(objectName{kindProvider, key.namespace, key.name}, 0, n)
	if l.by != nil && (n > 0 || l.by[d.Alert] > 0) {
		if l.by[d.Alert] += n; l.by[d.Alert] <= 0 {
			delete(l.by, d.Alert)
		}
		s.Reports.count(objectName{kindAlert, key.namespace, d.Alert}, 0, n)
	}
	if l.count <= 0 {
		s.setLetters(key, 0)
	}
}

// readLetters reads the Alerts of dead letters, of readsPerTick Providers at a time. With again it also counts the dead letters of each
// Provider anew, and those of Providers that change meanwhile at a later tick.
func (s *shard) readLetters(work context.Context, again bool) {
	var unread []destinationKey
	for key, l := range s.letters {
		if l.by == nil && len(unread) < readsPerTick {
			unread = append(unread, key)
		}
	}
	again = again || s.recountSoon
	if s.readingLetters || len(unread) == 0 && !again {
		return
	}
	s.readingLetters, s.recountSoon = true, false
	s.settle()
	s.spawn(func() {
		ctx, cancel := context.WithTimeout(work, tickEvery)
		defer cancel()
		for _, key := range unread {
			if by, ok := s.readOf(ctx, key); ok {
				s.post(func() { s.attribute(key, by) })
			}
		}
		if again {
			settled := make(chan struct{})
			s.post(func() { s.settle(); close(settled) }) // what changed while the Alerts were read does not matter
			<-settled
			if providers, err := s.Dead.DeadProviders(ctx, s.number); err == nil {
				s.post(func() { s.recount(providers) })
			}
		}
		s.post(func() { s.readingLetters, s.recountSoon = false, len(s.unsettled) > 0 })
	})
}

// readOf counts the dead letters of a Provider by their Alerts.
func (s *shard) readOf(ctx context.Context, key destinationKey) (by map[string]int, ok bool) {
	by = map[string]int{}
	err := s.whole.each(ctx, key, time.Time{}, func(l *event.Dead) { by[l.Delivery.Alert]++ })
	if err != nil {
		s.log.Debug("dead letters not counted, it will be tried again", "namespace", key.namespace, "provider", key.name, "error", err)
		return nil, false
	}
	return by, true
}
