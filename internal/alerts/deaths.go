package alerts

import (
	"context"
	"time"

	"notifier/internal/event"
)

// readsPerTick is how many Providers' dead letters a shard reads in a tick to learn whose they are.
const readsPerTick = 8

// letters are the dead letters of one Provider, as far as they are counted.
type letters struct {
	count int
	// by counts them by the Alerts' names. It is nil until they were read.
	by map[string]int
}

// attributed returns how many of them are known to be of an Alert.
func (l *letters) attributed() (n int) {
	for _, of := range l.by {
		n += of
	}
	return n
}

// expectDead counts the dead letters of each Provider: one may have been mended while nobody looked.
func (s *shard) expectDead(ctx context.Context, now time.Time) error {
	providers, err := s.Dead.DeadProviders(ctx, s.number)
	if err != nil {
		return err
	}
	s.recount(providers)
	for p := range providers {
		if s.ReplayWindow > 0 {
			s.queue(p.Namespace, p.Provider, now).deaths = now.Add(s.ReplayWindow)
		}
	}
	return nil
}

// recount takes in how many dead letters each Provider of the shard has. Whose they are is to be read again where that is another number
// than was counted here: the bus drops the oldest on its own.
func (s *shard) recount(providers map[event.ProviderKey]int) {
	for p, n := range providers {
		key := destinationKey{p.Namespace, p.Provider}
		if l := s.letters[key]; l == nil || l.count != n || l.by != nil && l.attributed() != n {
			s.setLetters(key, n)
		}
	}
	for key, l := range s.letters {
		if _, there := providers[event.ProviderKey{Namespace: key.namespace, Provider: key.name}]; !there && l.count > 0 {
			s.setLetters(key, 0)
		}
	}
}

// setLetters sets how many dead letters a Provider has, of Alerts to be read.
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

// lettersOf returns what is counted of a Provider.
func (s *shard) lettersOf(key destinationKey) *letters {
	l := s.letters[key]
	if l == nil {
		l = &letters{by: map[string]int{}}
		s.letters[key] = l
	}
	return l
}

// forgetAlerts takes a Provider's dead letters away from the Alerts.
func (s *shard) forgetAlerts(key destinationKey, l *letters) {
	for alert, n := range l.by {
		s.Reports.count(objectName{kindAlert, key.namespace, alert}, 0, -n)
	}
}

// attribute takes in whose the dead letters of a Provider are.
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

// died counts n dead letters more of a delivery's Provider and Alert, -1 for one that is replayed.
func (s *shard) died(d *event.Delivery, n int) {
	key := destinationKey{d.Namespace, d.Provider}
	l := s.lettersOf(key)
	l.count += n
	s.Reports.count(objectName{kindProvider, key.namespace, key.name}, 0, n)
	if l.by != nil && !d.Test { // a test message has no Alert
		if l.by[d.Alert] += n; l.by[d.Alert] <= 0 {
			delete(l.by, d.Alert)
		}
		s.Reports.count(objectName{kindAlert, key.namespace, d.Alert}, 0, n)
	}
	if l.count <= 0 {
		s.setLetters(key, 0)
	}
}

// readLetters finds out whose dead letters there are, of some Providers at a time. With again it asks first how many there are.
func (s *shard) readLetters(work context.Context, again bool) {
	var unread []destinationKey
	for key, l := range s.letters {
		if l.by == nil && len(unread) < readsPerTick {
			unread = append(unread, key)
		}
	}
	if s.readingLetters || len(unread) == 0 && !again {
		return
	}
	s.readingLetters = true
	s.spawn(func() {
		ctx, cancel := context.WithTimeout(work, tickEvery)
		defer cancel()
		for _, key := range unread {
			if by, ok := s.readOf(ctx, key); ok {
				s.post(func() { s.attribute(key, by) })
			}
		}
		if again {
			if providers, err := s.Dead.DeadProviders(ctx, s.number); err == nil {
				s.post(func() { s.recount(providers) })
			}
		}
		s.post(func() { s.readingLetters = false })
	})
}

// readOf counts the dead letters of a Provider by their Alerts.
func (s *shard) readOf(ctx context.Context, key destinationKey) (by map[string]int, ok bool) {
	found, err := s.Dead.DeadLetters(ctx, key.namespace, key.name, time.Time{})
	if err != nil {
		s.log.Debug("dead letters not counted, it will be tried again", "namespace", key.namespace, "provider", key.name, "error", err)
		return nil, false
	}
	by = map[string]int{}
	for i := range found {
		if d := &found[i].Delivery; !d.Test {
			by[d.Alert]++
		}
	}
	return by, true
}
