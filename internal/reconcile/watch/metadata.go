package watch

import (
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"notifier/internal/event"
	"notifier/internal/reconcile/bounds"
	"notifier/internal/reconcile/kube"
)

// maxAnnotations bounds the annotations of an object that are kept only for filters, as bounds.Size counts them, in bytes. There may be 100,000
// objects.
const maxAnnotations = 4 << 10

// objectMeta is the metadata of an object, as it is read and cached. It has a part of the fields of metav1.ObjectMeta, which would be most of
// the cache.
type objectMeta struct {
	Namespace       string            `json:"namespace"`
	Name            string            `json:"name"`
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Generation      int64             `json:"generation"`
	Created         second            `json:"creationTimestamp"`
	Deleted         second            `json:"deletionTimestamp"`
	Labels          map[string]string `json:"labels"`
	Annotations     map[string]string `json:"annotations"`
}

// second is a time in Unix seconds, the API server's resolution. Zero means that there is none.
type second int64

// kept returns the part of the metadata that the cache keeps.
func (m objectMeta) kept() objectMeta {
	m.Labels, m.Annotations = kube.KeptLabels(m.Labels), keptAnnotations(m.Annotations)
	kube.Pack(&m.Namespace, &m.Name, &m.UID, &m.ResourceVersion)
	return m
}

// GetObjectMeta implements metav1.ObjectMetaAccessor for an informer, which reads the name and the version.
func (m *objectMeta) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: types.UID(m.UID), ResourceVersion: m.ResourceVersion}
}

// UnmarshalJSON reads a time as the API server writes it. Any other value counts as none, since it must not stop the kind. So does a time
// whose year in UTC has less or more than four digits, which the API server takes in another zone: it cannot be encoded again.
func (s *second) UnmarshalJSON(data []byte) error {
	*s = 0
	t, err := time.Parse(`"`+time.RFC3339+`"`, string(data))
	if year := t.UTC().Year(); err == nil && !t.IsZero() && year >= 0 && year <= 9999 {
		*s = second(t.Unix())
	}
	return nil
}

// time returns the time in UTC, the zero time for zero.
func (s second) time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(int64(s), 0).UTC()
}

// String returns the time as the API server writes it.
func (s second) String() string { return s.time().Format(time.RFC3339) }

// keptAnnotations returns the annotations that the cache keeps: all but kubectl's copy of the object, and beyond the bounds only the smallest
// event annotations and the smallest of the others.
func keptAnnotations(all map[string]string) map[string]string {
	delete(all, corev1.LastAppliedConfigAnnotation)
	switch {
	case len(all) == 0:
		return nil
	case bounds.Size(all) <= maxAnnotations:
		return all
	}
	events, others := map[string]string{}, map[string]string{}
	for key, value := range all {
		if strings.HasPrefix(key, event.MetadataPrefix) {
			events[key] = value
		} else {
			others[key] = value
		}
	}
	kept := kube.Within(events, event.MaxMetadata) // an event has no more
	maps.Copy(kept, kube.Within(others, maxAnnotations))
	return kept
}

// eventAnnotations returns a copy of the annotations that are part of every event of the object.
func eventAnnotations(all map[string]string) map[string]string {
	kept := maps.Clone(all)
	maps.DeleteFunc(kept, func(key, _ string) bool { return !strings.HasPrefix(key, event.MetadataPrefix) })
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// document returns the kept metadata of the object in the form of the object's JSON.
func (o *object) document() map[string]any {
	shown := map[string]any{
		"name": o.Name, "namespace": o.Namespace, "uid": o.UID, "resourceVersion": o.ResourceVersion, "generation": o.Generation,
		"creationTimestamp": o.Created.String(),
	}
	if len(o.Labels) > 0 {
		shown["labels"] = o.Labels
	}
	if len(o.Annotations) > 0 {
		shown["annotations"] = o.Annotations
	}
	if o.Deleted != 0 {
		shown["deletionTimestamp"] = o.Deleted.String()
	}
	return map[string]any{"apiVersion": o.apiVersion, "kind": o.kind.Kind, "metadata": shown}
}
