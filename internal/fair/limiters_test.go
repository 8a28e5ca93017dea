package fair

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

// pass waits for d, in the bubble of a test.
func pass(d time.Duration) { <-time.After(d) }

// Fails when a key shares its bucket with another, or when a bucket fills too fast or never.
func TestEachKeyHasItsOwnBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiters[string](2, 3, 10)
		allowed := func(key string) (n int) {
			for l.Allow(key) {
				n++
			}
			return n
		}
		if a, b := allowed("a"), allowed("b"); a != 3 || b != 3 {
			t.Errorf("%d and %d at once, want 3 each", a, b)
		}
		pass(time.Second)
		if n := allowed("a"); n != 2 {
			t.Errorf("%d after a second, want 2", n)
		}
	})
}

// Fails when keys from outside are remembered without a bound, or when a key in use is forgotten before an idle key.
func TestT6AFloodOfKeysIsBoundedAndForgetsTheIdleFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiters[string](1, 1, 100)
		l.Allow("busy")
		for i := range 10_000 {
			if !l.Allow(fmt.Sprint("flood-", i)) {
				t.Fatal("a new key is refused for the others")
			}
			if l.Allow("busy") {
				t.Fatal("a key in use was forgotten")
			}
		}
		if n := l.Len(); n != 100 {
			t.Errorf("%d keys", n)
		}
		if !l.Allow("flood-0") {
			t.Error("a key that comes back is held to what was forgotten")
		}
	})
}

// Fails when a token cannot be given back, or when a refused Take uses one up.
func TestATokenCanBeGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiters[int](1, 1, 10)
		now := time.Now()
		taken := l.Take(1, now)
		if taken == nil || l.Take(1, now) != nil {
			t.Fatal("want one token")
		}
		taken()
		if l.Take(1, now) == nil {
			t.Error("the token is gone")
		}
		pass(time.Second)
		if !l.Allow(1) {
			t.Error("a token that was refused was taken")
		}
	})
}

// Fails when a token that is given back after others were taken is lost, or fills a bucket beyond its burst.
func TestATokenIsGivenBackInFullAfterOthersWereTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const burst = 3
		l := NewLimiters[int](1, burst, 10)
		first := l.Take(1, time.Now())
		pass(time.Second)
		second := l.Take(1, time.Now())
		if l.Take(1, time.Now()) == nil {
			t.Fatal("no third token")
		}
		first()
		if tokens := l.of(1).Tokens(); tokens != burst-1 {
			t.Errorf("%v tokens, want %d", tokens, burst-1)
		}
		pass(time.Minute)
		second()
		if tokens := l.of(1).Tokens(); tokens != burst {
			t.Errorf("%v tokens in a bucket of %d", tokens, burst)
		}
	})
}

// Fails when rate.Inf limits events, or remembers keys.
func TestNoLimitRemembersNothing(t *testing.T) {
	l := NewLimiters[int](rate.Inf, 0, 10)
	for i := range 100 {
		if !l.Allow(i) {
			t.Fatal("refused")
		}
	}
	if n := l.Len(); n != 0 {
		t.Errorf("%d keys", n)
	}
}

// Fails when an event of a known key allocates memory.
func TestAllowOfAKnownKeyDoesNotAllocate(t *testing.T) {
	l := NewLimiters[string](1e9, 1e9, 10)
	if n := testing.AllocsPerRun(1000, func() { l.Allow("team-a") }); n > 0.1 {
		t.Errorf("%v allocations", n)
	}
}

// Fails when an empty bucket is emptied further: a flood of a key would have it refused long after the flood.
func TestTakesOfAnEmptyBucketCostNothing(t *testing.T) {
	l, now := NewLimiters[string](1, 1, 1), time.Now()
	if l.Take("a", now) == nil {
		t.Fatal("a full bucket is empty")
	}
	var flood sync.WaitGroup
	for range 8 {
		flood.Go(func() {
			for range 20000 {
				if l.Take("a", now) != nil {
					t.Error("an empty bucket had a token")
				}
			}
		})
	}
	flood.Wait()
	if l.Take("a", now.Add(time.Second)) == nil {
		t.Errorf("a second later the bucket has %.0f tokens, want 1", l.of("a").TokensAt(now.Add(time.Second)))
	}
}
