package watch

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// maxAnnotations bounds the annotations of an object that are kept only for filters, keys and values together, in bytes. There may be
// 100,000 objects.
const maxAnnotations = 2 << 10

// objectMeta is the cached metadata of an object. It has a part of the fields of metav1.ObjectMeta, which would be most of the cache.
type objectMeta struct {
	Namespace, Name, UID, ResourceVersion string
	Generation                            int64
	Created, Deleted                      second
	Labels, Annotations                   map[string]string
}

// second is a time in Unix seconds, the API server's resolution. Zero means that there is none.
type second int64

func newObjectMeta(d *documentMetadata) objectMeta {
	m := objectMeta{
		Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion, Generation: d.Generation,
		Created: d.CreationTimestamp, Deleted: d.DeletionTimestamp,
		Labels: kube.KeptLabels(d.Labels), Annotations: keptAnnotations(d.Annotations),
	}
	kube.Pack(&m.Namespace, &m.Name, &m.UID, &m.ResourceVersion)
	return m
}

// GetObjectMeta implements metav1.ObjectMetaAccessor for an informer, which reads the name and the version.
func (m *objectMeta) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: types.UID(m.UID), ResourceVersion: m.ResourceVersion}
}

// UnmarshalJSON reads a time as the API server writes it. Any other value counts as none, since it must not stop the kind.
func (s *second) UnmarshalJSON(data []byte) error {
	*s = 0
	if t, err := time.Parse(`"`+time.RFC3339+`"`, string(data)); err == nil && !t.IsZero() {
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

// keptAnnotations deletes from all the annotations that the cache does not keep: kubectl's copy of the object and, beyond the bound,
// the largest of those other than event annotations.
func keptAnnotations(all map[string]string) map[string]string {
	delete(all, corev1.LastAppliedConfigAnnotation)
	var others []string
	total := 0
	for key, value := range all {
		if !strings.HasPrefix(key, event.MetadataPrefix) {
			others = append(others, key)
			total += len(key) + len(value)
		}
	}
	large := total > maxAnnotations
	if large {
		size := func(key string) int { return len(key) + len(all[key]) }
		slices.SortFunc(others, func(a, b string) int { return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a, b)) })
		for _, key := range others {
			if total <= maxAnnotations {
				break
			}
			total -= size(key)
			delete(all, key)
		}
	}
	switch {
	case len(all) == 0:
		return nil
	case large: // a map whose entries were deleted keeps their memory
		kept := make(map[string]string, len(all))
		maps.Copy(kept, all)
		return kept
	default:
		return all
	}
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
