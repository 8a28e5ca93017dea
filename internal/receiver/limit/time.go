package limit

import (
	"context"
	"time"
)

// FilterTime bounds the time of all filters of one webhook together, and of all expressions over a token's claims. It is far more than any
// seriously meant filter needs, so that none fails on a busy machine.
const FilterTime = 250 * time.Millisecond

// InTime calls work with a context that ends after FilterTime, and calls it a second time if that context has ended when it returns: the
// process may have been suspended or without a processor, and a trigger that was left out for that would be lost (T4). The second result
// stands, so work starts from nothing at each call. There is no second call once ctx has ended.
func InTime(ctx context.Context, work func(ctx context.Context)) {
	for range 2 {
		limited, cancel := context.WithTimeout(ctx, FilterTime)
		work(limited)
		late := limited.Err() != nil
		cancel()
		if !late || ctx.Err() != nil {
			return
		}
	}
}
