package subscribe

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"notifier/internal/event"
	"notifier/internal/receiver"
)

// Subscription is what one Receiver of type event serves: it has no webhook and is triggered by events of its namespace. It is
// not changed once it was given to Subscriptions.
type Subscription struct {
	Namespace, Name, UID string
	// Created is the Receiver's creationTimestamp.
	Created time.Time
	// Generation is that of the spec it was made of.
	Generation int64
	Sources    []EventSource
	// Reasons are the reasons of the events that count, as EventSet returns them, empty for all.
	Reasons map[string]bool
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
	// MatchLabels must all be on the object.
	MatchLabels map[string]string
}

// validate reports what makes the subscription unfit to be served.
func (s *Subscription) validate() error {
	var errs []error
	if s.Namespace == "" || s.Name == "" {
		errs = append(errs, errors.New("subscription names no Receiver"))
	}
	return errors.Join(append(errs, receiver.CheckNamespace(s.Namespace, s.Targets))...)
}

// wants reports whether an event about an object of the Receiver's namespace is one that it subscribes to.
func (s *Subscription) wants(r *event.Record) bool {
	if s.Suspended || len(s.Reasons) > 0 && !s.Reasons[strings.ToLower(r.Event.Reason)] {
		return false
	}
	for _, source := range s.Sources {
		if source.selects(r.Event.InvolvedObject, r.Labels) {
			return true
		}
	}
	return false
}

func (s EventSource) selects(o event.ObjectReference, labels map[string]string) bool {
	return s.Kind == o.Kind && (s.Name == "*" || s.Name == o.Name) && event.HasLabels(labels, s.MatchLabels)
}

// subscribed is a subscription as it is served, with what was counted for its Receiver, which outlives an edit of the spec.
type subscribed struct {
	*Subscription
	stats *receiver.Stats
	// targets are receiver.TargetNames of the subscription's.
	targets []string
}

// youngerThan reports whether the Receiver was made after a time, as far as both clocks, the API server's and this process's, say so.
// What was accepted before does not trigger it: its namespace may have been another tenant's (invariant E1).
func (s subscribed) youngerThan(accepted time.Time) bool {
	return s.Created.After(accepted) && s.stats.Since.After(accepted) && !accepted.IsZero()
}

// Subscriptions holds the Receivers of type event by namespace, so that what an event costs does not depend on other
// namespaces. It is safe for concurrent use.
type Subscriptions struct {
	mu         sync.RWMutex
	namespaces map[string]map[string]subscribed // by namespace, then name
	filled     chan struct{}                    // has room for one: something was put
}

// NewSubscriptions returns an empty table.
func NewSubscriptions() *Subscriptions {
	return &Subscriptions{namespaces: map[string]map[string]subscribed{}, filled: make(chan struct{}, 1)}
}

// Put adds a Receiver's subscription or replaces it, and goes on counting while it is the same object. The error says why it
// cannot be served; then nothing is, as after Delete.
func (t *Subscriptions) Put(s *Subscription) error {
	if err := s.validate(); err != nil {
		t.Delete(s.Namespace, s.Name)
		return fmt.Errorf("subscription: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.namespaces[s.Namespace] == nil {
		t.namespaces[s.Namespace] = map[string]subscribed{}
	}
	counts := t.namespaces[s.Namespace][s.Name].stats
	if counts == nil || counts.UID != s.UID {
		counts = receiver.NewStats(s.UID, time.Now())
	}
	t.namespaces[s.Namespace][s.Name] = subscribed{s, counts, receiver.TargetNames(s.Targets)}
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
	delete(t.namespaces[namespace], name)
	if len(t.namespaces[namespace]) == 0 {
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
	s, ok := t.namespaces[id.namespace][id.name]
	return s.Subscription, ok
}

// wanting appends to into the subscriptions of the object's namespace that an event is for. It evaluates no others.
func (t *Subscriptions) wanting(r *event.Record, into []subscribed) []subscribed {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.namespaces[r.Event.InvolvedObject.Namespace] {
		if s.wants(r) && !s.youngerThan(r.Accepted) {
			into = append(into, s)
		}
	}
	return into
}

// Stats implements receiver.Source, and is locked until the caller has seen all.
func (t *Subscriptions) Stats() iter.Seq2[string, *receiver.Stats] {
	return func(yield func(string, *receiver.Stats) bool) {
		t.mu.RLock()
		defer t.mu.RUnlock()
		for namespace, of := range t.namespaces {
			for name, s := range of {
				if !yield(namespace+"/"+name, s.stats) {
					return
				}
			}
		}
	}
}
