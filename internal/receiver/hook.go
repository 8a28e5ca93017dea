package receiver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"notifier/internal/event"
	"notifier/internal/receiver/cel"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/verify"
)

// Hook is one Receiver as it is served at one path. It is not changed once it is in a Table.
type Hook struct {
	Namespace string
	Name      string
	UID       string
	// Created is the Receiver's creation time. If too many Receivers have one path, those without a token are served first, then the older
	// ones.
	Created time.Time
	// Path is Path of the token, name and namespace.
	Path     string
	Verifier verify.Verifier
	// Events are the accepted events, empty for all.
	Events EventSet
	// Targets are the triggers that an accepted webhook publishes, complete but for Accepted.
	Targets []event.Trigger
	// RateLimit is the Receiver's own budget of authentic webhooks, at most that of Limits. A Rate of 0 is none.
	RateLimit limit.Budget
	// Previous marks Path and Verifier as those of the previous token, which is still accepted while senders change over.
	Previous bool
	// Filter narrows Targets down for each webhook; nil triggers all of them.
	Filter Filter
	// Suspended hooks verify and then refuse, so that only senders that know the token learn of the suspension.
	Suspended bool
}

// Filter selects the triggers of one authentic webhook.
type Filter interface {
	// ReadsBody reports whether Select needs the webhook's document, which is then kept in memory within Limits.
	ReadsBody() bool
	// Select returns the triggers, complete but for Accepted, of the targets that pass. A target whose filter fails is left out, and the
	// others are still selected; failed is the reason, without quotes of the webhook. claims are in JSON, nil for none.
	Select(ctx context.Context, claims, document []byte) (selected []event.Trigger, failed error)
}

// keepsBody reports whether the bodies of the hook's webhooks are kept in memory.
func (h *Hook) keepsBody() bool {
	return h.Verifier.KeepsBody() || h.Filter != nil && h.Filter.ReadsBody()
}

// EventSet has a Receiver's spec.events, where case does not count: in lower case and in order. For the few names of most Receivers a map
// would be mostly empty space.
type EventSet []string

// NewEventSet returns the set of names, nil for none.
func NewEventSet(names []string) EventSet {
	var set EventSet
	for _, name := range names {
		set = append(set, strings.ToLower(name))
	}
	slices.Sort(set)
	return set
}

// Has reports whether the set has a name.
func (s EventSet) Has(name string) bool {
	_, found := slices.BinarySearch(s, strings.ToLower(name))
	return found
}

// listed reports whether the Receiver wants the event.
func (h *Hook) listed(e verify.Event) bool {
	return len(h.Events) == 0 || !e.Selects || h.Events.Has(e.Name)
}

// validate returns the errors for which the hook cannot be served.
func (h *Hook) validate() error {
	var errs []error
	if h.Namespace == "" || h.Name == "" {
		errs = append(errs, errors.New("hook names no Receiver"))
	}
	if !isHookPath(h.Path) {
		errs = append(errs, errors.New("hook's path is not one of Path"))
	}
	if h.Verifier == nil {
		errs = append(errs, errors.New("hook has no verifier"))
	}
	errs = append(errs, h.RateLimit.Validate("the Receiver's own"))
	triggers := h.Targets
	if f, ok := h.Filter.(*cel.Filters); ok {
		triggers = slices.Concat(triggers, f.Triggers())
	}
	return errors.Join(append(errs, CheckNamespace(h.Namespace, triggers))...)
}

// CheckNamespace returns an error that names the targets of other namespaces than the Receiver's. They are refused here: no trigger that a
// Receiver publishes may name another namespace (invariant T1).
func CheckNamespace(namespace string, triggers []event.Trigger) error {
	var errs []error
	for _, t := range triggers {
		if t.Namespace != namespace {
			errs = append(errs, fmt.Errorf("target %s %s is not in the Receiver's namespace", t.Target.Kind, t.Target.Name))
		}
	}
	return errors.Join(errs...)
}
