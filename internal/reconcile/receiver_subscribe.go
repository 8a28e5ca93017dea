package reconcile

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "notifier/api/v1"
	"notifier/internal/receiver/subscribe"
	"notifier/internal/reconcile/bounds"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/secrets"
)

// SubscriptionTable is the table of Receivers that events trigger; subscribe.Subscriptions is one.
type SubscriptionTable interface {
	Put(s *subscribe.Subscription) error
	Delete(namespace, name string)
}

// planSources checks the event sources of a Receiver of type event and adds them to the plan.
func planSources(r *v1.Receiver, plan *receiverPlan) *fault {
	n := len(r.Spec.EventSources)
	switch {
	case r.Spec.Type != v1.EventReceiver && n > 0:
		return invalidSpec("spec.eventSources is for type event, not %q", r.Spec.Type)
	case r.Spec.Type != v1.EventReceiver:
		return nil
	case n == 0:
		return invalidSpec("spec.eventSources is required for type event")
	case n > bounds.MaxReceiverSources:
		return beyondLimit("spec.eventSources has more than %d entries", bounds.MaxReceiverSources)
	}
	if f := checkUnfiltered(r); f != nil {
		return f
	}
	for i, s := range r.Spec.EventSources {
		if !isOwn(r, s) {
			continue // checkNamespaces has noted it
		}
		if s.Kind == "" || s.Name == "" {
			return invalidSpec("spec.eventSources[%d]: kind or name is empty", i)
		}
		if len(s.MatchLabels) > bounds.MaxLabels {
			return beyondLimit("spec.eventSources[%d].matchLabels has more than %d entries", i, bounds.MaxLabels)
		}
		if errs := metav1validation.ValidateLabels(s.MatchLabels, field.NewPath("matchLabels")); len(errs) > 0 {
			return invalidSpec("spec.eventSources[%d]: %v", i, errs[0])
		}
		plan.sources = append(plan.sources, subscribe.EventSource{Kind: s.Kind, Name: s.Name, MatchLabels: maps.Clone(s.MatchLabels)})
	}
	return nil
}

// checkUnfiltered refuses filters, which read the body of a webhook. Ignoring them would let more events trigger than the spec allows.
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

// subscribe serves a Receiver of type event. It replaces the webhook of an earlier spec.
func (c *receiverController) subscribe(r *v1.Receiver, plan receiverPlan) {
	k := kube.KeyOf(r)
	c.secrets.Release(secrets.User{Kind: v1.ReceiverKind, Key: k})
	c.options.Hooks.Delete(k.String())
	err := c.options.Subscriptions.Put(&subscribe.Subscription{
		Namespace: r.Namespace, Name: r.Name, UID: string(r.UID), Created: r.CreationTimestamp.Time, Generation: r.Generation,
		Sources: plan.sources, Reasons: plan.events, Targets: triggersOf(r, plan), Suspended: r.Spec.Suspend,
	})
	if errors.Is(err, subscribe.ErrNamespaceFull) {
		c.refuse(r, fault{reason: v1.LimitExceededReason, message: err.Error(), retried: true, event: failedEvent})
		c.compileQueue.EnqueueAfter(k, minInterval+rand.N(minInterval/10)) // another one may have made room
		return
	}
	if err != nil {
		c.refuse(r, fault{reason: v1.ValidationFailedReason, message: oneLine(err), event: validationEvent})
		return
	}
	if r.Spec.Suspend {
		c.verdicts.put(r, served(r, v1.SuspendedReason, "spec.suspend is set: no event triggers; unset it to go on"))
		return
	}
	v := served(r, v1.SucceededReason, "Receiver initialized for events of "+numbered(len(plan.sources), "source", "sources"))
	v.lack = plan.lack
	c.verdicts.put(r, v)
}
