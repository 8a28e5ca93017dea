package kube

import (
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Sharer is an object that names the texts that other objects probably have too, such as the name of a kind.
type Sharer interface {
	// ShareTexts calls share with each of them.
	ShareTexts(share func(*string))
}

// sharedLabels has the labels of the objects in all caches: those of one Kustomization are of several kinds.
var sharedLabels = NewInterner()

// trim is the transform of an informer.
func trim(o any) (any, error) {
	if object, ok := o.(metav1.Object); ok {
		trimObject(object)
	}
	return o, nil
}

// trimObject drops the parts that the cache does not use, which are most of an object that was applied by kubectl. Equal texts and labels
// of objects then share memory: thousands of objects have the same conditions, and those of one Kustomization the same labels.
func trimObject(o metav1.Object) {
	o.SetManagedFields(nil)
	packNames(o)
	o.SetLabels(sharedLabels.Labels(o.GetLabels()))
	annotations := o.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation) // a second copy of the object, which is never read here
	if len(annotations) == 0 {
		o.SetAnnotations(nil) // an empty map keeps the memory of its former contents
	}
	if s, ok := o.(Sharer); ok {
		s.ShareTexts(share)
	}
	if p, ok := o.(interface{ Problem() *string }); ok {
		share(p.Problem())
	}
	if c, ok := o.(interface{ Conditions() *[]metav1.Condition }); ok {
		trimConditions(c.Conditions())
	}
}

// packNames packs the texts that distinguish an object from all others.
func packNames(o metav1.Object) {
	namespace, name, uid, version := o.GetNamespace(), o.GetName(), string(o.GetUID()), o.GetResourceVersion()
	Pack(&namespace, &name, &uid, &version)
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetUID(types.UID(uid))
	o.SetResourceVersion(version)
}

// Pack moves texts into one string. They then are one object for the collector, and take less memory than rounded up one by one.
func Pack(texts ...*string) {
	var all strings.Builder
	n := 0
	for _, t := range texts {
		n += len(*t)
	}
	all.Grow(n)
	for _, t := range texts {
		all.WriteString(*t)
	}
	packed := all.String()
	for _, t := range texts {
		*t, packed = packed[:len(*t)], packed[len(*t):]
	}
}

func trimConditions(conditions *[]metav1.Condition) {
	if cap(*conditions) > len(*conditions) { // decoders leave spare capacity
		exact := make([]metav1.Condition, len(*conditions))
		copy(exact, *conditions)
		*conditions = exact
	}
	for i := range *conditions {
		c := &(*conditions)[i]
		share(&c.Type)
		share((*string)(&c.Status))
		share(&c.Reason)
		share(&c.Message)
	}
}

// share replaces a text by one shared copy, which is freed with the last object that has it.
func share(text *string) {
	if *text != "" {
		*text = unique.Make(*text).Value()
	}
}
