package reconcile

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	v1 "notifier/api/v1"
	"notifier/internal/event/view"
)

// Namespaces returns the namespaces that have Providers, Alerts or Receivers, in order.
func (r *Reconciler) Namespaces() []string {
	var all []string
	for _, kind := range r.kinds {
		all = append(all, kind.namespaces()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Health returns the health of the Providers, Alerts and Receivers of a namespace, sorted by kind and name. Ready is this replica's
// verdict on the present spec, else that of the status. Problem is that of the status, else the verdict's. It never has a webhook path.
func (r *Reconciler) Health(namespace string) []view.Health {
	var all []view.Health
	for _, kind := range r.kinds {
		all = append(all, kind.healthIn(namespace)...)
	}
	slices.SortFunc(all, func(a, b view.Health) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return all
}

func (k *kindOf[T]) healthIn(namespace string) []view.Health {
	var all []view.Health
	for _, o := range k.objects.InNamespace(namespace) {
		h := view.Health{Kind: k.name, Name: o.GetName(), Problem: problemOf(o)}
		v, judged := k.verdicts.on(o)
		if judged && k.refine != nil {
			v, judged = k.refine(o, v)
		}
		switch shown := meta.FindStatusCondition(*o.Conditions(), k.outcome); {
		case judged && v.generation == o.GetGeneration():
			h.Ready = v.serving()
		case shown != nil:
			h.Ready = shown.Status == "True" && shown.Reason != v1.SuspendedReason
		}
		if h.Problem == "" && judged && !v.serving() {
			h.Problem = inLine(v.message)
		}
		all = append(all, h)
	}
	return all
}
