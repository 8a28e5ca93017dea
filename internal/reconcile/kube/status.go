package kube

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// probeEvery is how often a kind without a status subresource is tried again: its CRD may have been replaced by one with it.
const probeEvery = 10 * time.Minute

// StatusWriter writes the status of one kind's objects.
type StatusWriter[T Object] struct {
	resource Resource[T]
	// Kept, if not nil, is called after each write with the sent object and the API server's result, which lacks the fields that its CRD
	// does not have. Unless the caller remembers that, the status always differs and is written for ever. It is set before the writer is
	// used.
	Kept func(sent, kept T)

	// absent is when the kind was last found to have no status subresource.
	absent atomic.Pointer[time.Time]
}

// NewStatusWriter returns a writer for the kind.
func NewStatusWriter[T Object](r Resource[T]) *StatusWriter[T] {
	return &StatusWriter[T]{resource: r}
}

// Write changes a copy of cached by set and writes its status if that made a difference. It reports whether it wrote. A conflict is
// returned unchanged and means that the cache is outdated: the caller's queue retries. A missing object is no error, nor is a kind
// without a status (as in Flux's own CRDs of Alert and Provider).
func (w *StatusWriter[T]) Write(ctx context.Context, cached T, set func(T)) (bool, error) {
	object := cached.DeepCopyObject().(T)
	set(object)
	// Most statuses are unchanged. reflect.DeepEqual finds that without garbage; the other comparison makes a copy of each text.
	if reflect.DeepEqual(cached, object) || equality.Semantic.DeepEqual(cached, object) || !w.HasStatus() {
		return false, nil
	}
	client := w.resource.In(cached.GetNamespace())
	kept, err := client.UpdateStatus(ctx, object, metav1.UpdateOptions{})
	switch {
	case err == nil:
		if w.Kept != nil {
			w.Kept(object, kept)
		}
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
		now := time.Now()
		w.absent.Store(&now)
	}
	return nil
}

// HasStatus reports whether the kind has a status, as far as known.
func (w *StatusWriter[T]) HasStatus() bool {
	at := w.absent.Load()
	return at == nil || time.Since(*at) >= probeEvery
}
