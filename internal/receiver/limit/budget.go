package limit

import (
	"fmt"
	"math"
	"strconv"

	"golang.org/x/time/rate"
)

// Budget is a token bucket: Rate per second on average, Burst at once.
type Budget struct {
	Rate  float64
	Burst int
}

// Limiter returns the budget's token bucket, full. If the budget is off, it always has a token.
func (b Budget) Limiter() *rate.Limiter { return rate.NewLimiter(b.Limit(), b.Burst) }

// Limit returns the rate, rate.Inf when the budget is off.
func (b Budget) Limit() rate.Limit {
	if b.Rate == 0 {
		return rate.Inf
	}
	return rate.Limit(b.Rate)
}

// Apply gives l the budget's rate and burst. Used tokens stay used: the bucket is not refilled.
func (b Budget) Apply(l *rate.Limiter) {
	if l.Limit() != b.Limit() || l.Burst() != b.Burst {
		l.SetLimit(b.Limit())
		l.SetBurst(b.Burst)
	}
}

// Validate returns an error if the budget of this name cannot be used.
func (b Budget) Validate(name string) error {
	switch {
	case !(b.Rate >= 0) || math.IsInf(b.Rate, 1):
		return fmt.Errorf("%s budget has a rate that is none", name)
	case b.Burst < 0:
		return fmt.Errorf("%s budget is negative", name)
	case b.Rate > 0 && b.Burst == 0:
		return fmt.Errorf("%s budget has a rate and no burst, so that it would admit nothing", name)
	}
	return nil
}

// Within returns the budget that is bounded by both.
func (b Budget) Within(ceiling Budget) Budget {
	switch {
	case b.Rate == 0:
		return ceiling
	case ceiling.Rate == 0:
		return b
	}
	return Budget{Rate: min(b.Rate, ceiling.Rate), Burst: min(b.Burst, ceiling.Burst)}
}

// RetryAfter returns the Retry-After of an answer over the budget: the seconds until one token is back, at most a minute.
func (b Budget) RetryAfter() string {
	if b.Rate == 0 {
		return "1"
	}
	return strconv.Itoa(int(min(60, math.Ceil(1/b.Rate))))
}
