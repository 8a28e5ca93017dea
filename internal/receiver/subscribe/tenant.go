package subscribe

import (
	"errors"
	"slices"
)

// Bounds on the subscriptions of one namespace together. One reader handles the events of all namespaces, and goes on when the triggers of a
// batch are stored, so the cost of one event delays all others (invariant T6).
const (
	// maxWork bounds the work of one event: a unit is a few dozen nanoseconds. subscriptionWork is that of a Receiver, in addition to its
	// sources and their labels.
	maxWork          = 4096
	subscriptionWork = 8
	// maxTargets bounds the triggers of one event.
	maxTargets = 2048
)

// ErrNamespaceFull is the error for a subscription of a namespace with as many as it may have.
var ErrNamespaceFull = errors.New("the namespace's Receivers of type event have too many sources, labels or resources together; " +
	"use fewer Receivers, or names with * and matchLabels")

// tenant has the subscriptions of one namespace.
type tenant struct {
	named map[string]subscribed // by name
	// awake are those that are not suspended: few, and the only ones that an event is compared with.
	awake []subscribed
}

// work returns the work of comparing an event with the subscription and counting it.
func (s *Subscription) work() int {
	work := subscriptionWork
	for _, source := range s.Sources {
		work += 1 + len(source.MatchLabels)
	}
	return work
}

// fits reports whether there is room for one more subscription.
func (n *tenant) fits(s *Subscription) bool {
	work, targets := s.work(), len(s.Targets)
	for _, other := range n.awake {
		work += other.work()
		targets += len(other.Targets)
	}
	return s.Suspended || work <= maxWork && targets <= maxTargets
}

func (n *tenant) add(s subscribed) {
	n.named[s.Name] = s
	if !s.Suspended {
		n.awake = append(n.awake, s)
	}
}

// remove removes a subscription, if there is one.
func (n *tenant) remove(name string) {
	delete(n.named, name)
	n.awake = slices.DeleteFunc(n.awake, func(s subscribed) bool { return s.Name == name })
}
