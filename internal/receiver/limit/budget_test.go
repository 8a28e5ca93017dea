package limit

import (
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// Fails when a changed budget is not applied, or fills the bucket: a tenant could change its Receiver for ever more webhooks.
func TestAChangedBudgetLeavesUsedTokensUsed(t *testing.T) {
	l := Budget{Rate: 1, Burst: 10}.Limiter()
	now := time.Now()
	if !l.AllowN(now, 10) {
		t.Fatal("the bucket is not full at first")
	}
	for _, to := range []Budget{{Rate: 2, Burst: 10}, {Rate: 2, Burst: 20}, {Rate: 0.5, Burst: 5}, {}} {
		to.Apply(l)
		if l.Limit() != to.Limit() || l.Burst() != to.Burst {
			t.Errorf("%+v: got %v with a burst of %d", to, l.Limit(), l.Burst())
		}
		if left := l.TokensAt(now); l.Limit() != rate.Inf && left > 1 {
			t.Errorf("%+v: %v tokens are left", to, left)
		}
	}
}

// Fails when a budget is accepted that admits nothing, or whose rate is no number.
func TestABudgetThatAdmitsNothingIsInvalid(t *testing.T) {
	for b, valid := range map[Budget]bool{
		{}: true, {1, 1}: true, {0, 5}: true,
		{1, 0}: false, {-1, 1}: false, {0, -1}: false, {math.NaN(), 1}: false, {math.Inf(1), 1}: false,
	} {
		if err := b.Validate("test"); (err == nil) != valid {
			t.Errorf("%+v: %v", b, err)
		}
	}
}

// Fails when a sender is told to wait less than until the next token is back, or for more than a minute.
func TestRetryAfterIsTheTimeOfOneToken(t *testing.T) {
	for b, want := range map[Budget]string{{}: "1", {5, 1}: "1", {0.3, 1}: "4", {0.001, 1}: "60"} {
		if got := b.RetryAfter(); got != want {
			t.Errorf("%+v: got %s, want %s", b, got, want)
		}
	}
}
