package kube

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/bounds"
)

// Bounds on the metadata of an object that the cache keeps. An entry of a map counts 64 bytes beside its key and its value.
const (
	maxLabels      = 8 << 10 // bytes
	maxAnnotations = 4 << 10 // bytes of those that are not read
	maxRead        = 8 << 10 // bytes of the value of one that is read
	maxOwners      = 64      // references, and finalizers
)

// readAnnotations are those that the program reads. They are kept.
var readAnnotations = []string{
	v1.ReconcileRequestAnnotation, v1.ServiceAccountAnnotation, v1.ReplayAnnotation, v1.TestAnnotation, Undecodable,
}

// shared has the texts and the labels of the objects in all caches.
var shared = newInterner()

// ShareLabels returns a map equal to m for an object in a cache. It is one map for the objects in all caches: a Kustomization gives its
// labels to objects of several kinds. It is never m itself, and must not be changed.
func ShareLabels(m map[string]string) map[string]string { return shared.Labels(m) }

// trim is the transform of an informer.
func trim(o any) (any, error) {
	if object, ok := o.(Object); ok {
		trimObject(object)
	}
	return o, nil
}

// trimObject drops the parts that the cache does not use, which are most of an object that was applied by kubectl. Equal texts and labels
// of objects then share memory: thousands of objects have the same conditions, and those of one Kustomization the same labels.
func trimObject(o Object) {
	o.SetManagedFields(nil)
	packNames(o)
	o.SetLabels(ShareLabels(KeptLabels(o.GetLabels())))
	o.SetAnnotations(trimAnnotations(o.GetAnnotations()))
	boundMetadata(o)
	bounds.Spec(o)
	bounds.Status(o)
	o.ShareTexts(Share)
	Share(o.Problem())
	trimConditions(o.Conditions())
}

// KeptLabels returns the labels of an object that a cache keeps: as many of the smallest as 8 KiB allow, each counted with 64 bytes more. The
// API server takes more than a megabyte of them.
func KeptLabels(all map[string]string) map[string]string { return Within(all, maxLabels) }

// boundMetadata cuts the lists. Nothing writes them back: the API server takes only the status of a written status, and the finalizer of
// Flux is removed by a patch of one entry.
func boundMetadata(o metav1.Object) {
	finalizers, owners := o.GetFinalizers(), o.GetOwnerReferences()
	if len(finalizers) > maxOwners {
		bounds.List(&finalizers, maxOwners)
		o.SetFinalizers(finalizers)
	}
	if len(owners) > maxOwners {
		bounds.List(&owners, maxOwners)
		o.SetOwnerReferences(owners)
	}
}

// trimAnnotations returns the annotations that are read and, of the others, as many of the smallest as their bound allows.
func trimAnnotations(all map[string]string) map[string]string {
	delete(all, corev1.LastAppliedConfigAnnotation) // a second copy of the object, which is never read here
	read := map[string]string{}
	for _, key := range readAnnotations {
		if value, ok := all[key]; ok {
			bounds.Text(&value, maxRead)
			read[key] = value
			delete(all, key)
		}
	}
	others := Within(all, maxAnnotations)
	if len(read)+len(others) == 0 {
		return nil // an empty map keeps the memory of its former contents
	}
	maps.Copy(read, others)
	return read
}

// Within returns as many of the smallest entries of a map as n bytes allow, as bounds.Size counts them: the map itself if all fit, else another,
// since a map whose entries were deleted keeps their memory. It sorts no more than those: an object may have 130,000 labels.
func Within(all map[string]string, n int) map[string]string {
	if bounds.Size(all) <= n {
		return all
	}
	type sized struct {
		key  string
		size int
	}
	var smallest []sized
	for key, value := range all {
		one := sized{key, bounds.EntrySize(key, value)}
		place, _ := slices.BinarySearchFunc(smallest, one, func(a, b sized) int {
			return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.key, b.key))
		})
		smallest = slices.Insert(smallest, place, one)
		for n -= one.size; n < 0; smallest = smallest[:len(smallest)-1] {
			n += smallest[len(smallest)-1].size
		}
	}
	kept := make(map[string]string, len(smallest))
	for _, one := range smallest {
		kept[one.key] = all[one.key]
	}
	return kept
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
	bounds.List(conditions, len(*conditions)) // decoders leave spare capacity
	for i := range *conditions {
		c := &(*conditions)[i]
		Share(&c.Type)
		Share((*string)(&c.Status))
		Share(&c.Reason)
		Share(&c.Message)
	}
}

// Share replaces a text of an object in a cache by one copy for the objects in all caches.
func Share(text *string) { *text = shared.Text(*text) }
