package reconcile

import (
	"fmt"
	"maps"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "notifier/api/v1"
	"notifier/internal/receiver/subscribe"
	"notifier/internal/reconcile/kube"
)

// SubscriptionTable is what events trigger; subscribe.Subscriptions is one.
type SubscriptionTable interface {
	Put(s *subscribe.Subscription) error
	Delete(namespace, name string)
}

// maxSources bounds what one event is compared with for one Receiver.
const maxSources = 64

// planSources turns the event sources of a Receiver of type event into what is matched.
func planSources(r *v1.Receiver, plan *receiverPlan) *fault {
	invalid := func(format string, args ...any) *fault {
		return &fault{reason: v1.ValidationFailedReason, message: fmt.Sprintf(format, args...)}
	}
	n := len(r.Spec.EventSources)
	switch {
	case r.Spec.Type != v1.EventReceiver && n > 0:
		return invalid("spec.eventSources is for type event, not %q", r.Spec.Type)
	case r.Spec.Type != v1.EventReceiver:
		return nil
	case n == 0:
		return invalid("spec.eventSources is required for type event")
	case n > maxSources:
		return &fault{reason: v1.LimitExceededReason, message: fmt.Sprintf("spec.eventSources has %d entries, more than %d", n, maxSources)}
	}
	if f := checkUnfiltered(r); f != nil {
		return f
	}
	for i, s := range r.Spec.EventSources {
		if !isOwn(r, s) {
			continue // checkNamespaces has noted it
		}
		if s.Kind == "" || s.Name == "" {
			return invalid("spec.eventSources[%d]: kind or name is empty", i)
		}
		if len(s.MatchLabels) > maxLabels {
			return &fault{reason: v1.LimitExceededReason, message: fmt.Sprintf(
				"spec.eventSources[%d].matchLabels has %d entries, more than %d", i, len(s.MatchLabels), maxLabels)}
		}
		if errs := metav1validation.ValidateLabels(s.MatchLabels, field.NewPath("matchLabels")); len(errs) > 0 {
			return invalid("spec.eventSources[%d]: %v", i, errs[0])
		}
		plan.sources = append(plan.sources, subscribe.EventSource{Kind: s.Kind, Name: s.Name, MatchLabels: maps.Clone(s.MatchLabels)})
	}
	return nil
}

// checkUnfiltered refuses filters, which read what a webhook brings: ignored, they would let more trigger than the spec says.
func checkUnfiltered(r *v1.Receiver) *fault {
	unsupported := func(name string) *fault {
		return &fault{reason: v1.UnsupportedFieldReason, message: name + " is not supported for type event, so no event triggers"}
	}
	if r.Spec.ResourceFilter != "" {
		return unsupported("spec.resourceFilter")
	}
	for i, res := range servedResources(r) {
		if res.Filter != "" {
			return unsupported(fmt.Sprintf("spec.resources[%d].filter", i))
		}
	}
	return nil
}

// subscribe serves a Receiver of type event, in the place of the webhook that it may have been.
func (c *receiverController) subscribe(r *v1.Receiver, plan receiverPlan) {
	k := kube.KeyOf(r)
	c.secrets.Release(secretUser{v1.ReceiverKind, k})
	c.hooks.Delete(k.String())
	s := inertSubscription(r)
	s.Sources, s.Reasons, s.Targets, s.Suspended = plan.sources, plan.events, triggersOf(r, plan), r.Spec.Suspend
	if err := c.subscriptions.Put(s); err != nil {
		c.refuse(r, fault{reason: v1.ValidationFailedReason, message: oneLine(err), event: validationEvent})
		return
	}
	if r.Spec.Suspend {
		c.decide(r, served(r, v1.SuspendedReason, "spec.suspend is set: no event triggers; unset it to go on"))
		return
	}
	sources := "1 source"
	if n := len(plan.sources); n > 1 {
		sources = fmt.Sprintf("%d sources", n)
	}
	v := served(r, v1.SucceededReason, "Receiver initialized for events of "+sources)
	v.lack = plan.lack
	c.decide(r, v)
}

// unsubscribe ends what events trigger. A Receiver of type event that is refused stays known, so that its status is still written
// when a loop of its earlier spec is over.
func (c *receiverController) unsubscribe(r *v1.Receiver) {
	if r.Spec.Type != v1.EventReceiver || c.subscriptions.Put(inertSubscription(r)) != nil {
		c.subscriptions.Delete(r.Namespace, r.Name)
	}
}

// inertSubscription is that of a Receiver of type event that nothing triggers.
func inertSubscription(r *v1.Receiver) *subscribe.Subscription {
	return &subscribe.Subscription{
		Namespace: r.Namespace, Name: r.Name, UID: string(r.UID), Created: r.CreationTimestamp.Time, Generation: r.Generation,
		Suspended: true,
	}
}
