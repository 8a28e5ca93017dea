package apply

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// The refusals of a target before anything is written.
var (
	errName       = errors.New("the target's name is not the name of an object")
	errPending    = errors.New("objects of this kind are still being read")
	errBusy       = errors.New("the Receivers of the namespace take long to search for one that asks for the object")
	errNotWatched = errors.New("objects of this kind cannot be selected: the kind is not watched")
)

// resolve returns the Receiver that asks for the trigger's target, and the target as that Receiver names it. The Receiver whose webhook
// it was takes precedence. If it is gone or no longer asks, resolve returns any other that asked for the same as the same account by
// then, because their triggers were one message. So it does if that Receiver has another account by now, as which the last request was
// refused. Otherwise why is the result of the trigger. With resultRefused the returned Receiver may ask for the target, but this cannot be
// known because the kind is not watched. It must not be called under the lock.
func (a *Applier) resolve(w *event.Trigger, refusedAs string) (r Receiver, target event.Target, why string) {
	named, alive := a.own(w)
	asks := false
	if alive {
		target, why = a.asked(named, w)
		asks = why != resultRemoved
		if asks && (named.ServiceAccount != refusedAs || event.TargetKey(w.Target, refusedAs) == w.Key) {
			return named, target, why
		}
	}
	other, otherTarget, not := a.search(w)
	switch {
	case asks && not != "":
		return named, target, why
	case not == resultOwnerGone && alive:
		not = resultRemoved
	}
	return other, otherTarget, not
}

// searchWindow and searchTime bound the time of searches for a namespace to an eighth of a processor: a thousand Receivers have half a
// million selectors, which take half a second, and each of thousands of triggers may need a search.
const searchWindow, searchTime = 8 * time.Second, time.Second

// busyPause returns the pause of a job for which its namespace has no search or no claim left. It varies, so that those that wait do not
// come at one time.
func busyPause() time.Duration { return minFailedPause + rand.N(searchWindow) }

// search is resolve for the Receivers that the webhook was not for. Why is resultBusy while another search for the namespace is under way,
// since this one would take one more of the workers that all share, and while the namespace has used up its time.
func (a *Applier) search(w *event.Trigger) (r Receiver, target event.Target, why string) {
	turn, free := a.searching.TryAcquire(w.Namespace, 1)
	defer turn.Release()
	if !free || a.searched.Left(w.Namespace) <= 0 {
		return Receiver{}, event.Target{}, resultBusy
	}
	defer a.searched.Timed(w.Namespace)()
	same := samenessOf(w.Target)
	for _, other := range a.opts.Receivers.InNamespace(w.Namespace) {
		// Creation times are whole seconds, rounded down.
		if other.Namespace != w.Namespace || other.Created.Add(time.Second).After(w.Accepted) {
			continue
		}
		x := other.targets()
		_, known := x.same[same]
		if !known && len(x.selecting[same.groupKind]) == 0 || event.TargetKey(w.Target, other.ServiceAccount) != w.Key {
			continue
		}
		if target, why = a.asked(other, w); why == "" {
			return other, target, ""
		}
	}
	return Receiver{}, event.Target{}, resultOwnerGone
}

// unseen reports whether resolve's result may only be due to this replica's delay: it may not have seen the Receiver yet, the state of
// it that names the target, or the object that a filter chose; or it has not compiled the Receiver. taken is when the trigger was taken in. It
// must not be called under the lock.
func (a *Applier) unseen(w *event.Trigger, why string, taken time.Time) bool {
	switch {
	case why != resultOwnerGone && why != resultRemoved:
		return false
	case a.opts.Receivers.Uncompiled(w.Namespace, w.Receiver, w.ReceiverUID):
		return true
	case w.Generation == 0 || time.Since(taken) >= unseenFor:
		return false
	}
	named, alive := a.own(w)
	return !alive || named.Generation < w.Generation || !w.Target.Selects() && len(named.targets().selecting[samenessOf(w.Target).groupKind]) > 0
}

// mend removes shown refusals of the Receiver whose webhook a trigger was, when resolve found another Receiver, or none, to ask for the
// object. It removes all refusals if the Receiver is gone, else those of the object. It must not be called under the lock.
func (a *Applier) mend(w *event.Trigger, found Receiver, object string) {
	if found.UID == w.ReceiverUID {
		return
	}
	named, alive := a.own(w)
	switch {
	case !alive:
		a.refusals.gone(*w)
	case !a.asks(named, w.Target.Kind, object):
		a.refusals.removed(named, w.Target.Kind, object)
	}
}

// mendUnasked removes shown refusals of objects that the Receiver no longer asks for, as no write to them will succeed, and of selectors of
// kinds that are watched now, as the Receiver may get no further webhook.
func (a *Applier) mendUnasked(r Receiver) {
	for _, d := range a.refusals.of(r) {
		if d.Object != "*" && !a.asks(r, d.Kind, d.Object) || d.Message == errNotWatched.Error() && a.watched(r, d.Kind) {
			a.refusals.removed(r, d.Kind, d.Object)
		}
	}
}

// watched reports whether the objects of a kind that a Receiver selects are watched.
func (a *Applier) watched(r Receiver, kind string) bool {
	return !slices.ContainsFunc(r.Targets, func(t event.Target) bool {
		if t.Kind != kind || !t.Selects() {
			return false
		}
		_, watched := a.opts.Selector.Selects(r.Namespace, t, "")
		return !watched
	})
}

// asks reports whether a Receiver asks for an object by any of its targets, as far as can be known.
func (a *Applier) asks(r Receiver, kind, object string) bool {
	return slices.ContainsFunc(r.Targets, func(t event.Target) bool {
		switch {
		case t.Kind != kind:
			return false
		case t.Name == object || !t.Selects():
			return t.Name == object
		}
		selected, watched := a.opts.Selector.Selects(r.Namespace, t, object)
		return selected || !watched
	})
}

// own returns the Receiver whose webhook a trigger was, if it exists.
func (a *Applier) own(w *event.Trigger) (Receiver, bool) {
	r, ok := a.opts.Receivers.Live(w.Namespace, w.Receiver)
	return r, ok && r.UID == w.ReceiverUID && r.Namespace == w.Namespace
}

// asked returns the wanted target as the Receiver names or chose it. Otherwise why is resultRemoved, or resultRefused or resultUnknown
// when it cannot be known.
func (a *Applier) asked(r Receiver, w *event.Trigger) (target event.Target, why string) {
	if i, ok := r.targets().same[samenessOf(w.Target)]; ok {
		return r.Targets[i], ""
	}
	return a.chosen(r, w)
}

// chosen returns a wanted object that the Receiver does not name, if the Receiver selects it now: filters choose among the objects of a
// selector. Otherwise why is as in asked.
func (a *Applier) chosen(r Receiver, w *event.Trigger) (target event.Target, why string) {
	if w.Target.Selects() {
		return event.Target{}, resultRemoved
	}
	why = resultRemoved
	for _, i := range r.targets().selecting[samenessOf(w.Target).groupKind] {
		t := r.Targets[i]
		one := t.Named(w.Target.Name)
		switch selected, watched := a.opts.Selector.Selects(r.Namespace, t, w.Target.Name); {
		case selected:
			return one, ""
		case !watched && a.opts.Selector.Pending(t.Kind):
			target, why = one, resultUnknown
		case !watched:
			target, why = one, resultRefused
		}
	}
	return target, why
}

// objects returns the names of the objects that a target means, and the target with the API version by which they are found. If there
// are none, why is the reason, and a refusal was shown on the Receiver.
func (a *Applier) objects(ctx context.Context, r Receiver, target event.Target) (found event.Target, names []string, why string) {
	refuse := func(err error) (event.Target, []string, string) {
		a.refusals.deny(r, denial(r, target, err))
		return target, nil, resultRefused
	}
	if !target.Selects() {
		if faults := rest.IsValidPathSegmentName(target.Name); target.Name == "" || len(faults) > 0 {
			return refuse(errName)
		}
	}
	found = target
	if target.APIVersion == "" { // the group is part of an object's identity
		resource, err := a.opts.Catalogue.Resource(ctx, r.Namespace, target.APIVersion, target.Kind)
		switch {
		case kube.IsUnresolvable(err):
			return refuse(err)
		case err != nil:
			a.line(r.Namespace).Warn("kind not looked up, it will be tried again", "receiver", r.Name, "kind", target.Kind, "error", err)
			return target, nil, resultUnknown
		}
		found.APIVersion = resource.GroupVersion().String()
	}
	if !target.Selects() {
		a.refusals.resolved(r, target)
		return found, []string{target.Name}, ""
	}
	names, watched := a.opts.Selector.Select(r.Namespace, found)
	if !watched {
		if a.opts.Selector.Pending(found.Kind) {
			return target, nil, resultUnknown
		}
		return refuse(errNotWatched)
	}
	a.refusals.resolved(r, target)
	if len(names) == 0 {
		return found, nil, resultNoMatch
	}
	return found, names, ""
}

// denial returns the denial of a target that was refused before any request.
func denial(r Receiver, target event.Target, err error) Denied {
	d := Denied{
		ServiceAccount: r.ServiceAccount, Resource: target.Kind, Kind: target.Kind, Object: target.Name,
		Message: err.Error(),
	}
	if kube.IsUnresolvable(err) {
		d.Reason, d.Reviewed = v1.KindNotFoundReason, true
	}
	return d
}

func groupOf(apiVersion string) string {
	return event.ObjectReference{APIVersion: apiVersion}.Group()
}
