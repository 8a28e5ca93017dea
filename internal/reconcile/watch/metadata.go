package watch

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/internal/event"
)

// maxAnnotations bounds the annotations of an object that are kept only for filters, keys and values together, in bytes. There may be
// 100,000 objects.
const maxAnnotations = 2 << 10

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
	if total > maxAnnotations {
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
	if len(all) == 0 {
		return nil
	}
	return all
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
	metadata := map[string]any{
		"name": o.Name, "namespace": o.Namespace, "uid": string(o.UID), "resourceVersion": o.ResourceVersion, "generation": o.Generation,
		"creationTimestamp": timeText(&o.CreationTimestamp),
	}
	if len(o.Labels) > 0 {
		metadata["labels"] = o.Labels
	}
	if len(o.Annotations) > 0 {
		metadata["annotations"] = o.Annotations
	}
	if o.DeletionTimestamp != nil {
		metadata["deletionTimestamp"] = timeText(o.DeletionTimestamp)
	}
	return map[string]any{"apiVersion": o.apiVersion, "kind": o.kind.Kind, "metadata": metadata}
}

func timeText(t *metav1.Time) string { return t.UTC().Format(time.RFC3339) }
