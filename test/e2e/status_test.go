package e2e

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"notifier/test/env"
)

// T6. A tenant writes a zero time into the status of its Alert, which is null when it is written back, and dropped by the API server. Fails
// when that counts as a definition without the field, so that another tenant's Alert does not show it.
func TestT6AZeroTimeInAStatusHidesNothingOfAnotherTenant(t *testing.T) {
	s := setUp(t)
	sink, other := s.AlertedSink(), s.NewTenant()
	s.Must(other.Alert(s.Ctx, "all", "generic", sink.URL("/"), env.AnyKustomization))
	_, err := other.Dynamic.Resource(env.Kinds["Alert"]).Namespace(other.Namespace).Patch(s.Ctx, "all", types.MergePatchType,
		[]byte(`{"status":{"lastMatched":"0001-01-01T00:00:00Z","conditions":null}}`), metav1.PatchOptions{}, "status")
	s.Must(err)
	s.Must(env.Eventually(s.Within(soon), func(ctx context.Context) error {
		alert, err := other.Get(ctx, "Alert", "all")
		if err != nil {
			return err
		}
		if at, found, _ := unstructured.NestedString(alert.Object, "status", "lastMatched"); found {
			return fmt.Errorf("the status is not written back: lastMatched is %s", at)
		}
		return nil
	}))
	s.failure("one")
	s.waitMessages(sink, "one")
	s.Must(env.Eventually(s.Within(soon), func(ctx context.Context) error {
		return s.shows(ctx, "Alert", "all", map[string]string{"Matched": "*"})
	}))
}
