package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

// operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value string `json:"value,omitempty"`
}

// finalizerPatch returns the patch that removes Flux's finalizer at index i of the list. Its test fails if the list has changed since it
// was read, so that no other finalizer is removed.
func finalizerPatch(i int) ([]byte, error) {
	path := fmt.Sprintf("/metadata/finalizers/%d", i)
	return json.Marshal([]operation{{Op: "test", Path: path, Value: v1.Finalizer}, {Op: "remove", Path: path}})
}

// release removes Flux's finalizer from an object that is being deleted. Nothing else removes it.
func release[T kube.Object](ctx context.Context, r kube.Resource[T], object T) error {
	i := slices.Index(object.GetFinalizers(), v1.Finalizer)
	if object.GetDeletionTimestamp() == nil || i < 0 {
		return nil
	}
	patch, err := finalizerPatch(i)
	if err != nil {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	_, err = r.In(object.GetNamespace()).Patch(ctx, object.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	return nil
}
