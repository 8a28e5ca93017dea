package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "notifier/api/v1"
	"notifier/api/v1beta3"
	"notifier/internal/alerts"
	"notifier/internal/reconcile/kube"
)

// providerIndex finds Alerts by "namespace/name" of their Provider.
const providerIndex = "provider"

// alertsByProvider is the values of providerIndex.
func alertsByProvider(a *v1beta3.Alert) []string {
	return []string{kube.Key{Namespace: a.Namespace, Name: a.Spec.ProviderRef.Name}.String()}
}

// alertController compiles Alerts into the route table.
type alertController struct {
	alerts   *kube.Informer[*v1beta3.Alert]
	table    *alerts.Table
	verdicts *verdicts
	// limit is how many Alerts of one namespace are served, the oldest ones; zero for all.
	limit int
	queue *kube.Controller
	// decided is told the key of every verdict that is new.
	decided func(kube.Key)
}

// reconcile compiles an Alert, or for a key without a name sees to a namespace's limit.
func (c *alertController) reconcile(_ context.Context, k kube.Key) error {
	if k.Name == "" {
		c.rank(k.Namespace)
		return nil
	}
	object, ok := c.alerts.Get(k)
	if !ok || object.DeletionTimestamp != nil {
		c.table.Delete(k.String())
		c.verdicts.remove(k)
		c.decided(k)
		return nil
	}
	if c.isOver(object) {
		c.put(alerts.Inert(alertSpec(object)), refused(object, fault{reason: v1.LimitExceededReason, message: fmt.Sprintf(
			"the namespace has more than %d Alerts, and only the oldest are served", c.limit)}))
		return nil
	}
	compiled, f := compileAlert(object)
	v := served(object, v1.SucceededReason, "Alert initialized")
	switch {
	case f != nil:
		v = refused(object, *f)
	case object.Spec.Suspend:
		v = served(object, v1.SuspendedReason, "spec.suspend is set: no event is matched")
	}
	c.put(compiled, v)
	return nil
}

func (c *alertController) put(a *alerts.Alert, v verdict) {
	c.table.Put(a.Key(), a)
	k := kube.Key{Namespace: a.Namespace, Name: a.Name}
	if c.verdicts.put(k, v) {
		c.decided(k)
	}
}

// keys are what to look at when an Alert comes, goes or changes: itself and, where the limit is in reach, its namespace.
func (c *alertController) keys(a *v1beta3.Alert) []kube.Key {
	keys := kube.Self(a)
	if c.limit > 0 && len(c.alerts.InNamespace(a.Namespace)) >= c.limit {
		keys = append(keys, kube.Key{Namespace: a.Namespace})
	}
	return keys
}

// isOver reports whether an Alert is beyond its namespace's limit: as many older ones are served.
func (c *alertController) isOver(a *v1beta3.Alert) bool {
	if c.limit == 0 {
		return false
	}
	all := c.alerts.InNamespace(a.Namespace)
	if len(all) <= c.limit {
		return false
	}
	older := 0
	for _, other := range all {
		if other.DeletionTimestamp == nil && byAge(other, a) < 0 {
			older++
		}
	}
	return older >= c.limit
}

// byAge orders Alerts, the oldest first. The name decides between those of one second, so that all replicas decide alike.
func byAge(a, b *v1beta3.Alert) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// rank enqueues the Alerts of a namespace that crossed its limit, up or down, since they were compiled.
func (c *alertController) rank(namespace string) {
	all := c.alerts.InNamespace(namespace)
	all = slices.DeleteFunc(all, func(a *v1beta3.Alert) bool { return a.DeletionTimestamp != nil })
	slices.SortFunc(all, byAge)
	for i, a := range all {
		v, ok := c.verdicts.get(kube.KeyOf(a))
		if ok && (v.reason == v1.LimitExceededReason) != (i >= c.limit) {
			c.queue.Enqueue(kube.KeyOf(a))
		}
	}
}

// withProvider refines the verdict on an Alert by what has become of its Provider. The Alert is served all the same: what it
// matches waits for the Provider, so that nothing is lost.
func withProvider(providers *kube.Informer[*v1beta3.Provider], known *verdicts) func(*v1beta3.Alert, verdict) verdict {
	return func(a *v1beta3.Alert, v verdict) verdict {
		if !v.ready {
			return v
		}
		k := kube.Key{Namespace: a.Namespace, Name: a.Spec.ProviderRef.Name}
		if _, ok := providers.Get(k); !ok {
			return refused(a, fault{reason: v1.ProviderNotFoundReason, retried: true, message: fmt.Sprintf(
				"Provider %q does not exist; events are kept for it", k.Name)})
		}
		if p, ok := known.get(k); !ok || !p.ready {
			return refused(a, fault{reason: v1.ProviderNotReadyReason, retried: true, message: fmt.Sprintf(
				"Provider %q is not ready; events are kept for it", k.Name)})
		}
		return v
	}
}
