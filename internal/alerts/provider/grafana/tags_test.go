package grafana

import (
	"slices"
	"testing"

	"notifier/internal/alloctest"
)

// Fails when each wanted tag is looked for in all tags of an answer, which a tenant's server may fill with them.
func TestT6ManyTagsAreReadOnce(t *testing.T) {
	wanted := []string{"flux", "kind: Kustomization", "name: apps", "namespace: team-a", failureTag}
	tags := append(slices.Repeat([]string{"a b"}, 100_000), "severity:error", "namespace:team-a", "name:apps", "kind:Kustomization", "flux")
	cost := func(wanted []string) uint64 {
		return alloctest.Bytes(func() {
			if !hasTags(tags, wanted) || hasTags(tags[1:], append(slices.Clip(wanted), "b")) {
				t.Errorf("%v are not found, or b is", wanted)
			}
		})
	}
	if all, one := cost(wanted), cost(wanted[:1]); all > 2*one {
		t.Errorf("%d KiB are allocated to find all, and %d to find one", all>>10, one>>10)
	}
}
