package watch

import (
	"cmp"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"notifier/internal/event"
)

// Select returns the names of the objects of a namespace that a target selects by their labels. Of its API version only the group
// counts, and an empty version means any. It reports false when the kind is not watched or its objects are not all known yet.
func (w *Watcher) Select(namespace string, target event.Target) (names []string, watched bool) {
	in, ok := w.holding(namespace, target)
	if !ok {
		return nil, false
	}
	for _, o := range in.selected(namespace, selectorOf(target)) {
		names = append(names, o.Name)
	}
	return names, true
}

// Selects reports whether Select returns the object of that name.
func (w *Watcher) Selects(namespace string, target event.Target, name string) (selected, watched bool) {
	in, ok := w.holding(namespace, target)
	if !ok {
		return false, false
	}
	o := in.get(namespace, name)
	return o != nil && selectorOf(target).Matches(labels.Set(o.Labels)), true
}

// Objects returns the objects that a target means: the object of its name, or all that it selects, ordered by name. Each has the kept
// part of its metadata in the form of its JSON. The maps and their contents must not be changed.
func (w *Watcher) Objects(namespace string, target event.Target) (objects iter.Seq2[string, map[string]any], watched bool) {
	in, ok := w.holding(namespace, target)
	if !ok {
		return nil, false
	}
	var found []*object
	if target.Selects() {
		found = in.selected(namespace, selectorOf(target))
		slices.SortFunc(found, func(a, b *object) int { return cmp.Compare(a.Name, b.Name) })
	} else if o := in.get(namespace, target.Name); o != nil {
		found = []*object{o}
	}
	return func(yield func(string, map[string]any) bool) {
		for _, o := range found {
			if !yield(o.Name, o.document()) {
				return
			}
		}
	}, true
}

// holding returns the informer that knows all objects of a namespace that a target could mean.
func (w *Watcher) holding(namespace string, target event.Target) (*informer, bool) {
	in := w.informerOf(kindNamed(target.Kind))
	if in == nil || !in.hasSynced() || w.opts.Namespace != "" && w.opts.Namespace != namespace {
		return nil, false
	}
	version, err := schema.ParseGroupVersion(target.APIVersion)
	return in, err == nil && (target.APIVersion == "" || version.Group == in.kind.Group)
}

// selected returns the cached objects of a namespace whose labels match.
func (in *informer) selected(namespace string, selector labels.Selector) []*object {
	return slices.DeleteFunc(in.InNamespace(namespace), func(o *object) bool { return !selector.Matches(labels.Set(o.Labels)) })
}

// selectorOf returns the target's label selector. An invalid one matches no object.
func selectorOf(target event.Target) labels.Selector {
	demands := &metav1.LabelSelector{MatchLabels: target.MatchLabels}
	for _, r := range target.MatchExpressions {
		demands.MatchExpressions = append(demands.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator), Values: r.Values,
		})
	}
	selector, err := metav1.LabelSelectorAsSelector(demands)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}
