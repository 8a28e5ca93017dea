package reconcile

import (
	"context"
	"fmt"

	v1 "notifier/api/v1"
	"notifier/internal/alerts"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/reconcile/kube"
)

// providerIndex is the index of Alerts by "namespace/name" of their Provider.
const providerIndex = "provider"

// alertsByProvider returns an Alert's values in providerIndex.
func alertsByProvider(a *v1.Alert) []string {
	return []string{kube.Key{Namespace: a.Namespace, Name: a.Spec.ProviderRef.Name}.String()}
}

// alertController compiles Alerts into the route table.
type alertController struct {
	*kindOf[*v1.Alert]
	// ages reports which Alerts of a namespace are served, the oldest ones; nil serves all.
	ages *ages
}

// compile compiles an Alert and stores its verdict.
func (c *alertController) compile(_ context.Context, k kube.Key) error {
	object, ok := c.objects.Get(k)
	if !ok || object.DeletionTimestamp != nil {
		c.options.Alerts.Delete(k.String())
		c.verdicts.remove(k)
		return nil
	}
	if c.ages.over(k, object.CreationTimestamp.Time) {
		c.refuse(object, fault{reason: v1.LimitExceededReason, message: fmt.Sprintf(
			"the namespace has more than %d Alerts, and only the oldest are served", c.ages.limit)})
		return nil
	}
	compiled, f := compileAlert(object)
	v := served(object, v1.SucceededReason, "Alert initialized")
	switch {
	case f != nil:
		v = refused(object, *f)
	case object.Spec.Suspend:
		v = served(object, v1.SuspendedReason, "spec.suspend is set: no event is matched; unset it to go on")
	}
	c.options.Alerts.Put(compiled)
	c.verdicts.put(object, v)
	return nil
}

// refuse takes an Alert out of use: it matches nothing.
func (c *alertController) refuse(a *v1.Alert, f fault) {
	c.options.Alerts.Put(alerts.Inert(alertSpec(a)))
	c.verdicts.put(a, refused(a, f))
}

// keys returns the keys to compile when an Alert is made, changed or deleted: its own, and those of the Alerts that it moves over the
// namespace's limit.
func (c *alertController) keys(a *v1.Alert) []kube.Key { return noted(c.ages, c.objects, a) }

// withProvider refines the verdict on an Alert by the state of its Provider. The Alert is served in any case: its deliveries wait for the
// Provider, so that none is lost. It returns false while the Provider is not compiled, after which the Alert's status is enqueued again.
func (r *Reconciler) withProvider(a *v1.Alert, v verdict) (_ verdict, complete bool) {
	if !v.ready {
		return v, true
	}
	name := a.Spec.ProviderRef.Name
	named, ok := r.providers.objects.Get(kube.Key{Namespace: a.Namespace, Name: name})
	if !ok {
		return refused(a, fault{reason: v1.ProviderNotFoundReason, retried: true, message: fmt.Sprintf(
			"Provider %q does not exist: make it, or correct spec.providerRef; events are kept for it", name)}), true
	}
	if named.DeletionTimestamp != nil {
		return refused(a, fault{reason: v1.ProviderNotFoundReason, retried: true, message: fmt.Sprintf(
			"Provider %q is being deleted: nothing is sent to it; name another, or make it again when it is gone", name)}), true
	}
	p, ok := r.providers.verdicts.on(named)
	switch {
	case !ok:
		return v, false
	case p.reason == v1.UnsupportedTypeReason && p.generation == named.Generation:
		v = refused(a, fault{reason: v1.ProviderNotReadyReason, retried: true, message: fmt.Sprintf(
			"Provider %q is of a type that is not supported: see its status; events are not kept for it", name)})
	case named.Spec.Suspend: // also while it cannot be compiled
		v = served(a, v1.SuspendedReason, fmt.Sprintf(
			"Provider %q is suspended: nothing is sent to it, and what happens meanwhile is not kept; unset its spec.suspend to go on", name))
	case !p.serving(): // or was not, and cannot be compiled now
		v = refused(a, fault{reason: v1.ProviderNotReadyReason, retried: true, message: fmt.Sprintf(
			"Provider %q cannot be sent to (%s): see its status; events are kept for it", name, p.reason)})
	case v.reason == v1.SucceededReason && a.Spec.EventSeverity == v1.SeverityError && registry.Resolves(named.Spec.Type):
		v = served(a, v.reason, fmt.Sprintf(
			"%s; eventSeverity %q leaves out the recoveries by which Provider %q resolves what failures open", v.message, a.Spec.EventSeverity, name))
	}
	return v, true
}
