package kube

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// probeEvery is how often a kind without a status subresource is tried again, and a field that was dropped: its CRD may have been replaced by one
// with it. The first try of such a kind is minProbe after it was found, and the time doubles: one of several API servers may be behind.
const minProbe, probeEvery = 10 * time.Second, 10 * time.Minute

// StatusWriter writes the status of one kind's objects.
type StatusWriter[T Object] struct {
	resource Resource[T]
	fields   []reflect.StructField

	mu sync.Mutex
	// absent is when the kind was last found to have no status subresource, zero if it has one, and pause the time until the next try.
	absent time.Time
	pause  time.Duration
	// pruned has the fields of the status that the API server dropped from a written one, each with the last time: another definition of the
	// kind, such as Flux's own or an earlier release's, lacks them. Unless they are left out the status always differs, and is written for
	// ever.
	pruned map[string]time.Time
}

// NewStatusWriter returns a writer for the kind.
func NewStatusWriter[T Object](r Resource[T]) *StatusWriter[T] {
	return &StatusWriter[T]{resource: r, fields: statusFields[T](), pruned: map[string]time.Time{}}
}

// Write changes a copy of cached by set and writes its status if that made a difference. It reports whether it wrote. A conflict is
// returned unchanged and means that the cache is outdated: the caller's queue retries. A missing object is no error, nor is a kind
// without a status (as in Flux's own CRDs of Alert and Provider).
func (w *StatusWriter[T]) Write(ctx context.Context, cached T, set func(T)) (bool, error) {
	object := cached.DeepCopyObject().(T)
	set(object)
	w.leaveOut(cached, object)
	// Most statuses are unchanged. reflect.DeepEqual finds that without garbage; the other comparison makes a copy of each text.
	if reflect.DeepEqual(cached, object) || equality.Semantic.DeepEqual(cached, object) || !w.HasStatus() {
		return false, nil
	}
	client := w.resource.In(cached.GetNamespace())
	kept, err := client.UpdateStatus(ctx, object, metav1.UpdateOptions{})
	switch {
	case err == nil:
		w.note(object, kept)
		return true, nil
	case apierrors.IsConflict(err):
		return false, err
	case apierrors.IsNotFound(err):
		return false, w.notFound(ctx, client, cached)
	default:
		return false, fmt.Errorf("write status: %w", err)
	}
}

// notFound distinguishes a missing object from a kind without status: the API server's answer is the same.
func (w *StatusWriter[T]) notFound(ctx context.Context, client Client[T], cached T) error {
	live, err := client.Get(ctx, cached.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the status subresource: %w", err)
	}
	if live.GetUID() == cached.GetUID() {
		w.lacksStatus()
	}
	return nil
}

// lacksStatus notes that the kind has no status subresource. Answers to several writes at once count as one.
func (w *StatusWriter[T]) lacksStatus() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.absent.IsZero() || time.Since(w.absent) >= w.pause {
		w.absent, w.pause = time.Now(), min(max(2*w.pause, minProbe), probeEvery)
	}
}

// HasStatus reports whether the kind has a status, as far as known.
func (w *StatusWriter[T]) HasStatus() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.absent.IsZero() || time.Since(w.absent) >= w.pause
}

// Retry returns the time until what the kind's definition lacks is tried again, zero if it lacks nothing or the next write tries it.
func (w *StatusWriter[T]) Retry() (after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.absent.IsZero() {
		after = time.Until(w.absent.Add(w.pause))
	}
	for _, at := range w.pruned {
		after = max(after, time.Until(at.Add(probeEvery)))
	}
	return max(after, 0)
}

// leaveOut restores the fields of a status that the API server would drop.
func (w *StatusWriter[T]) leaveOut(cached, object T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, is := statusOf(cached), statusOf(object)
	for _, f := range w.fields {
		before, now := was.FieldByIndex(f.Index), is.FieldByIndex(f.Index)
		if at, dropped := w.pruned[f.Name]; dropped && time.Since(at) < probeEvery || isNone(before) && isNone(now) {
			now.Set(before)
		}
	}
}

// note notes that a status was written, and which fields of it the API server did not keep.
func (w *StatusWriter[T]) note(sent, kept T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.absent, w.pause = time.Time{}, 0
	was, is := statusOf(sent), statusOf(kept)
	for _, f := range w.fields {
		if !isNone(was.FieldByIndex(f.Index)) && isNone(is.FieldByIndex(f.Index)) {
			w.pruned[f.Name] = time.Now()
		}
	}
}

// isNone reports whether a field is sent as nothing, or as null like a zero time, which the API server drops from any status.
func isNone(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice:
		return v.Len() == 0
	case reflect.Pointer:
		at, isTime := reflect.TypeAssert[*metav1.Time](v)
		return v.IsNil() || isTime && at.IsZero()
	default:
		return v.IsZero()
	}
}

func statusOf(o Object) reflect.Value { return reflect.ValueOf(o).Elem().FieldByName("Status") }

// statusFields returns the fields of the status of a kind, including those of structs in it.
func statusFields[T Object]() []reflect.StructField {
	status, _ := reflect.TypeFor[T]().Elem().FieldByName("Status")
	return slices.DeleteFunc(reflect.VisibleFields(status.Type), func(f reflect.StructField) bool { return f.Anonymous })
}
