package alerts

import (
	"fmt"
	"strings"
	"testing"

	"notifier/internal/alloctest"
)

// T6: a namespace may have a thousand Alerts with 1,024 sources each. Fails when each compiled source has a map of its labels, which takes
// several times their length, and eight times as long to compare with each event: 95 ms for all of them.
func TestT6ACompiledSourceTakesLittleMoreThanItsLabels(t *testing.T) {
	spec := AlertSpec{Namespace: "team-a", Name: "a", Provider: "p"}
	for i := range MaxSources {
		spec.Sources = append(spec.Sources, Source{
			Kind: "Kustomization", Name: "*", MatchLabels: map[string]string{"app": strings.Repeat("x", 50) + fmt.Sprint(i)},
		})
	}
	made := alloctest.Bytes(func() {
		if a, err := Compile(spec); err != nil || len(a.sources) != 1 || len(a.sources[0].selectors) != MaxSources {
			t.Fatal(err)
		}
	})
	if n := made / MaxSources; n > 160 {
		t.Errorf("%d bytes are allocated for a source with one label, want 160 at most", n)
	}
}
