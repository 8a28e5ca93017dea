package reconcile

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

// release removes Flux's finalizer from an object that is being deleted. Nothing else removes it.
func release[T kube.Object](ctx context.Context, r kube.Resource[T], object T) error {
	i := slices.Index(object.GetFinalizers(), v1.Finalizer)
	if object.GetDeletionTimestamp() == nil || i < 0 {
		return nil
	}
	// The test fails if the list has changed since it was read, so that no other finalizer is removed.
	patch := fmt.Appendf(nil, `[{"op":"test","path":"/metadata/finalizers/%[1]d","value":%[2]q},{"op":"remove","path":"/metadata/finalizers/%[1]d"}]`,
		i, v1.Finalizer)
	_, err := r.In(object.GetNamespace()).Patch(ctx, object.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	return nil
}
