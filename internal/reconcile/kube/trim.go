package kube

import (
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sharer is an object that tells which of its texts other objects are likely to have as well, such as the name of a kind.
type Sharer interface {
	// ShareTexts calls share with each of them.
	ShareTexts(share func(*string))
}

// trim is the transform of an informer.
func trim(o any) (any, error) {
	if object, ok := o.(metav1.Object); ok {
		trimObject(object)
	}
	return o, nil
}

// trimObject drops what is of no use in the cache, which is most of an object that was applied by kubectl, and has objects that say the
// same share the memory of it: thousands have the same conditions.
func trimObject(o metav1.Object) {
	o.SetManagedFields(nil)
	annotations := o.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation) // a second copy of the object, which nobody here reads
	if len(annotations) == 0 {
		o.SetAnnotations(nil) // an empty map keeps the room of what was in it
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

func trimConditions(conditions *[]metav1.Condition) {
	if cap(*conditions) > len(*conditions) { // as a decoder leaves it
		*conditions = slices.Clip(append(make([]metav1.Condition, 0, len(*conditions)), *conditions...))
	}
	for i := range *conditions {
		c := &(*conditions)[i]
		share(&c.Type)
		share((*string)(&c.Status))
		share(&c.Reason)
		share(&c.Message)
	}
}

// share replaces a text by the one copy of it, which is forgotten with the last object that has it.
func share(text *string) {
	if *text != "" {
		*text = unique.Make(*text).Value()
	}
}
