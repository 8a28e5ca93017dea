package apply

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"notifier/internal/event"
)

// The refusals of a target before anything is written.
var (
	errName       = errors.New("the target's name is not the name of an object")
	errNotWatched = errors.New("objects of this kind cannot be selected: the kind is not watched")
)

// resolve returns the Receiver that asks for the trigger's target and the target as that Receiver names it. It is the one whose
// webhook it was; if that one is gone or asks no more, any other that asked for the same as the same account by then, because
// their triggers were one message. Otherwise why says what became of it: with resultRefused, that the named Receiver may ask for
// it, which cannot be told because the kind is not watched.
func (a *Applier) resolve(t event.Trigger) (r Receiver, target event.Target, why string) {
	named, ok := a.opts.Receivers.Live(t.Namespace, t.Receiver)
	alive := ok && named.UID == t.ReceiverUID && named.Namespace == t.Namespace
	if alive {
		target, why = a.asked(named, t.Target, func(x event.Target) bool {
			return event.TargetKey(x, "") == event.TargetKey(t.Target, "")
		})
		if why != resultRemoved {
			return named, target, why
		}
	}
	for _, other := range a.opts.Receivers.InNamespace(t.Namespace) {
		// Creation times are whole seconds, rounded down.
		if other.Namespace != t.Namespace || other.Created.Add(time.Second).After(t.Accepted) {
			continue
		}
		target, why = a.asked(other, t.Target, func(x event.Target) bool {
			return event.TargetKey(x, other.ServiceAccount) == t.Key
		})
		if why == "" {
			return other, target, ""
		}
	}
	if alive {
		return Receiver{}, event.Target{}, resultRemoved
	}
	return Receiver{}, event.Target{}, resultOwnerGone
}

// asked returns the target that is the same as the one wanted, as the Receiver names it. A wanted object that the Receiver does not
// name counts if the Receiver selects it now: filters choose among what a selector finds. Else why is resultRemoved, or
// resultRefused when it cannot be told.
func (a *Applier) asked(r Receiver, wanted event.Target, same func(event.Target) bool) (target event.Target, why string) {
	if i := slices.IndexFunc(r.Targets, same); i >= 0 {
		return r.Targets[i], ""
	}
	if wanted.Selects() {
		return event.Target{}, resultRemoved
	}
	why = resultRemoved
	for _, t := range r.Targets {
		one := t.Named(wanted.Name)
		if !t.Selects() || !same(one) {
			continue
		}
		switch selected, watched := a.opts.Selector.Selects(r.Namespace, t, wanted.Name); {
		case selected:
			return one, ""
		case !watched:
			target, why = one, resultRefused
		}
	}
	return target, why
}

// objects returns the names of the objects that a target means, and the target with the API version by which they are found; or why
// there are none, having shown a refusal to the Receiver.
func (a *Applier) objects(ctx context.Context, r Receiver, target event.Target) (found event.Target, names []string, why string) {
	refuse := func(err error) (event.Target, []string, string) {
		a.book.deny(r, denial(r, target, err))
		return target, nil, resultRefused
	}
	if !target.Selects() {
		if faults := rest.IsValidPathSegmentName(target.Name); target.Name == "" || len(faults) > 0 {
			return refuse(errName)
		}
	}
	found = target
	if target.APIVersion == "" { // the group is a part of what tells objects apart
		resource, err := a.mapper.resource(ctx, target.APIVersion, target.Kind)
		switch {
		case unresolvable(err):
			return refuse(err)
		case err != nil:
			a.log.Warn("kind not looked up, it will be tried again", "namespace", r.Namespace, "receiver", r.Name,
				"kind", target.Kind, "error", err)
			return target, nil, resultUnknown
		}
		found.APIVersion = resource.GroupVersion().String()
	}
	if !target.Selects() {
		a.book.resolved(r, target)
		return found, []string{target.Name}, ""
	}
	names, watched := a.opts.Selector.Select(r.Namespace, found)
	if !watched {
		return refuse(errNotWatched)
	}
	a.book.resolved(r, target)
	if len(names) == 0 {
		return found, nil, resultNoMatch
	}
	return found, names, ""
}

// denial is what is shown of a target that was refused before any request.
func denial(r Receiver, target event.Target, err error) Denied {
	return Denied{
		ServiceAccount: r.ServiceAccount, Verb: "patch", Resource: target.Kind, Kind: target.Kind, Object: target.Name,
		Message: err.Error(),
	}
}

func groupOf(apiVersion string) string {
	return event.ObjectReference{APIVersion: apiVersion}.Group()
}
