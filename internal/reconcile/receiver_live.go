package reconcile

import (
	"cmp"
	"slices"

	"notifier/internal/reconcile/apply"
	"notifier/internal/reconcile/kube"
)

// A receiverController implements apply.Receivers by what is compiled. The live Receivers are those with a good spec. The appliers read them at
// the time of a write, for the service account and to check that the Receiver still names the target (invariant T2). A Receiver stays live
// while its Secret is missing or it is suspended, because a webhook accepted before is still due (T4). It ends with a bad spec or its deletion.
//
// They are complete when Reconciler.Complete is closed, and are not to be read before.

// Live returns the live Receiver of that name, and false if there is none.
func (c *receiverController) Live(namespace, name string) (apply.Receiver, bool) {
	known, _ := c.compiled.Load(kube.Key{Namespace: namespace, Name: name})
	if made, ok := known.(*compiled); ok && made.unplanned == nil {
		return made.live, true
	}
	return apply.Receiver{}, false
}

// Uncompiled reports whether the Receiver of that name and UID exists, and its present spec is still to be compiled.
func (c *receiverController) Uncompiled(namespace, name, uid string) bool {
	r, ok := c.objects.Get(kube.Key{Namespace: namespace, Name: name})
	if !ok || string(r.UID) != uid || r.DeletionTimestamp != nil {
		return false
	}
	v, decided := c.verdicts.on(r)
	return !decided || v.generation != r.Generation
}

// InNamespace returns the live Receivers of a namespace, ordered by name.
func (c *receiverController) InNamespace(namespace string) []apply.Receiver {
	var all []apply.Receiver
	for _, o := range c.objects.InNamespace(namespace) {
		if r, live := c.Live(namespace, o.Name); live {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b apply.Receiver) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Namespaces returns the namespaces that have Receivers, in no order.
func (c *receiverController) Namespaces() []string { return c.namespaces() }

// Follow sets the function that is called with every new live Receiver, and with every one whose UID, generation or service account changed.
func (c *receiverController) Follow(changed func(namespace, name string)) { c.changed.Store(&changed) }
