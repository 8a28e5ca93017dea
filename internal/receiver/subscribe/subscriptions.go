package subscribe

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"notifier/internal/event"
	"notifier/internal/receiver"
)

// Subscription is one Receiver of type event as it is served: it has no webhook and is triggered by events of its namespace. It is not
// changed once it was put into Subscriptions.
type Subscription struct {
	Namespace, Name, UID string
	// Created is the Receiver's creationTimestamp.
	Created time.Time
	// Generation is that of the spec that it was made of.
	Generation int64
	Sources    []EventSource
	// Reasons are the reasons of the events that count, empty for all.
	Reasons receiver.EventSet
	// Targets are the triggers that an event publishes, complete but for Accepted.
	Targets []event.Trigger
	// Suspended subscriptions exist and match nothing.
	Suspended bool
}

// EventSource selects objects of the Receiver's namespace, by the rules of an Alert's event sources.
type EventSource struct {
	Kind string
	// Name is an object's name, or "*" for all objects of the kind.
	Name string
	// MatchLabels are labels that the object must have.
	MatchLabels map[string]string
}

// validate returns the errors for which the subscription cannot be served.
func (s *Subscription) validate() error {
	var errs []error
	if s.Namespace == "" || s.Name == "" {
		errs = append(errs, errors.New("subscription names no Receiver"))
	}
	return errors.Join(append(errs, receiver.CheckNamespace(s.Namespace, s.Targets))...)
}

// wants reports whether the Receiver, if it is not suspended, subscribes to an event about an object of its namespace.
func (s *Subscription) wants(r *event.Record) bool {
	if len(s.Reasons) > 0 && !s.Reasons.Has(r.Event.Reason) {
		return false
	}
	return slices.ContainsFunc(s.Sources, func(source EventSource) bool { return source.selects(r.Event.InvolvedObject, r.Labels) })
}

func (s EventSource) selects(o event.ObjectReference, labels map[string]string) bool {
	return s.Kind == o.Kind && (s.Name == "*" || s.Name == o.Name) && event.HasLabels(labels, s.MatchLabels)
}

// subscribed is a subscription as it is served, with its Receiver's counts, which outlive an edit of the spec.
type subscribed struct {
	*Subscription
	stats *receiver.Stats
	// targets are receiver.TargetNames of the subscription's.
	targets []string
}

// youngerThan reports whether the Receiver was created after a time, by both the API server's clock and this process's. Events that were
// accepted before do not trigger it: its namespace may have been another tenant's (invariant E1).
func (s subscribed) youngerThan(accepted time.Time) bool {
	return s.Created.After(accepted) && s.stats.Since.After(accepted) && !accepted.IsZero()
}

// Subscriptions has the Receivers of type event by namespace, so that the cost of an event does not depend on other namespaces. It is safe
// for concurrent use.
type Subscriptions struct {
	mu         sync.RWMutex
	namespaces map[string]*tenant
	filled     chan struct{} // buffers one value: a subscription was put
}

// NewSubscriptions returns an empty table.
func NewSubscriptions() *Subscriptions {
	return &Subscriptions{namespaces: map[string]*tenant{}, filled: make(chan struct{}, 1)}
}

// Put adds a Receiver's subscription or replaces it, and continues its counts while it is the same object. If the subscription cannot be
// served, Put returns the reason and deletes the Receiver's subscription. The reason is ErrNamespaceFull if it can be when others of its
// namespace are gone.
func (t *Subscriptions) Put(s *Subscription) error {
	if err := s.validate(); err != nil {
		t.Delete(s.Namespace, s.Name)
		return fmt.Errorf("subscription: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.namespaces[s.Namespace]
	if n == nil {
		n = &tenant{named: map[string]subscribed{}}
		t.namespaces[s.Namespace] = n
	}
	counts := n.named[s.Name].stats
	if counts == nil || counts.UID != s.UID {
		counts = receiver.NewStats(s.UID, time.Now())
	}
	n.remove(s.Name)
	if !n.fits(s) {
		t.forget(s.Namespace)
		return ErrNamespaceFull
	}
	n.add(subscribed{s, counts, receiver.TargetNames(s.Targets)})
	select {
	case t.filled <- struct{}{}:
	default:
	}
	return nil
}

// Delete removes a Receiver's subscription, if there is one.
func (t *Subscriptions) Delete(namespace, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.namespaces[namespace]; n != nil {
		n.remove(name)
		t.forget(namespace)
	}
}

// forget removes a namespace without subscriptions. The caller has the lock.
func (t *Subscriptions) forget(namespace string) {
	if len(t.namespaces[namespace].named) == 0 {
		delete(t.namespaces, namespace)
	}
}

func (t *Subscriptions) empty() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.namespaces) == 0
}

func (t *Subscriptions) get(id subscriber) (*Subscription, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := t.namespaces[id.namespace]
	if n == nil {
		return nil, false
	}
	s, ok := n.named[id.name]
	return s.Subscription, ok
}

// wanting appends to into the subscriptions of the object's namespace that want the event. It evaluates no others.
func (t *Subscriptions) wanting(r *event.Record, into []subscribed) []subscribed {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := t.namespaces[r.Event.InvolvedObject.Namespace]
	if n == nil {
		return into
	}
	for _, s := range n.awake {
		if s.wants(r) && !s.youngerThan(r.Accepted) {
			into = append(into, s)
		}
	}
	return into
}

// Stats implements receiver.Source. The table is locked until the caller has seen all.
func (t *Subscriptions) Stats() iter.Seq2[string, *receiver.Stats] {
	return func(yield func(string, *receiver.Stats) bool) {
		t.mu.RLock()
		defer t.mu.RUnlock()
		for namespace, of := range t.namespaces {
			for name, s := range of.named {
				if !yield(namespace+"/"+name, s.stats) {
					return
				}
			}
		}
	}
}
