package reconcile

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "notifier/api/v1"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/verify"
)

// Fails when spec.rateLimit is dropped or counted per second, or when a missing burst admits nothing.
func TestASpecsRateLimitBecomesTheHooksBudget(t *testing.T) {
	for name, tc := range map[string]struct {
		limit *v1.ReceiverRateLimit
		want  limit.Budget
	}{
		"none":         {nil, limit.Budget{}},
		"with a burst": {&v1.ReceiverRateLimit{PerMinute: 30, Burst: 5}, limit.Budget{Rate: 0.5, Burst: 5}},
		"without one":  {&v1.ReceiverRateLimit{PerMinute: 120}, limit.Budget{Rate: 2, Burst: 120}},
	} {
		r := &v1.Receiver{Spec: v1.ReceiverSpec{Type: "generic", RateLimit: tc.limit}}
		r.Namespace, r.Name = "team-a", "hook"
		hook, err := compileHook(r, receiverPlan{}, verify.Credentials{Values: map[string][]byte{"token": []byte("x")}}, "token")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, hook.RateLimit); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
