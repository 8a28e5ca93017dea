package fair

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Fails when a level has no bound, or when use at one level does not count at the outer levels.
func TestT6EachLevelOfACapacityHasItsBound(t *testing.T) {
	all := NewCapacity(4)
	team, other := all.Within(3, 0), all.Within(3, 0)
	path := team.Within(2, 0)
	var uses []Use
	try := func(c *Capacity, want bool) {
		t.Helper()
		u, ok := c.TryAcquire(1)
		if ok != want {
			t.Errorf("acquired: %v, want %v", ok, want)
		}
		uses = append(uses, u)
	}
	try(path, true)
	try(path, true)
	try(path, false) // of the path
	try(team, true)
	try(team, false) // of the namespace
	try(other, true)
	try(other, false) // of all
	for i := range uses {
		uses[i].Release()
		uses[i].Release()
	}
	for name, c := range map[string]*Capacity{"all": all, "team": team, "other": other, "path": path} {
		if !c.Idle() {
			t.Errorf("%s: something stays in use", name)
		}
	}
}

// Fails when a flood that takes everything also takes the reserve of another namespace.
func TestT6TheReserveIsThereWhenAllElseIsInUse(t *testing.T) {
	all := NewCapacity(10)
	flood, quiet := all.Within(100, 2).Within(100, 0), all.Within(100, 2).Within(100, 0)
	n := 0
	for {
		if _, ok := flood.TryAcquire(1); !ok {
			break
		}
		n++
	}
	if n != 12 {
		t.Errorf("the flood has %d, want its reserve of 2 and 10", n)
	}
	first, ok := quiet.TryAcquire(1)
	second, ok2 := quiet.TryAcquire(1)
	if !ok || !ok2 {
		t.Fatal("another namespace is refused what is reserved for it")
	}
	if _, ok := quiet.TryAcquire(1); ok {
		t.Error("more than the reserve although all is in use")
	}
	first.Release()
	grows := quiet.Use()
	if err := grows.Grow(t.Context(), 1); err != nil || !all.extra.TryAcquire(1) {
		t.Errorf("what the reserve has is taken from all: %v", err)
	}
	grows.Release()
	if _, ok := quiet.TryAcquire(1); !ok {
		t.Error("the reserve is not given back")
	}
	second.Release()
}

// Fails when a waiting caller does not get released capacity in order, or keeps some after it has given up.
func TestACapacityIsWaitedForInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := NewCapacity(1)
		team := all.Within(2, 0)
		first, err := team.Acquire(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := team.Acquire(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		var order []int
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				u, err := all.Within(1, 0).Acquire(t.Context(), 1)
				if err != nil {
					t.Error(err)
				}
				order = append(order, i)
				u.Release()
			})
			synctest.Wait()
		}
		first.Release()
		wg.Wait()
		if fmt.Sprint(order) != "[0 1 2]" || !all.Idle() || !team.Idle() {
			t.Errorf("order %v, idle %v %v", order, all.Idle(), team.Idle())
		}
	})
}

// Fails when uses that grow piece by piece all wait for each other's pieces.
func TestUsesThatGrowNeverWaitForEachOtherForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pieces, piece, uses = 10, 10, 16
		all := NewCapacity(100)
		teams := []*Capacity{all.Within(60, 0), all.Within(60, 20)}
		paths := []*Capacity{teams[0].Within(30, 0), teams[0].Within(30, 0), teams[1].Within(30, 0), teams[1].Within(30, 0)}
		var mu sync.Mutex
		held, most := 0, 0
		add := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			held += n
			most = max(most, held)
		}
		var wg sync.WaitGroup
		for i := range uses {
			wg.Go(func() {
				u, grown := paths[i%len(paths)].Use(), 0
				for range pieces {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					if err := u.Grow(ctx, piece); err != nil {
						t.Errorf("use %d: %v", i, err)
					} else {
						add(piece)
						grown += piece
					}
					cancel()
					pass(time.Millisecond)
				}
				add(-grown)
				u.Release()
			})
		}
		wg.Wait()
		// 100 and the growth of one use beyond that, for each of the seven capacities, and the reserve.
		if bound := 100 + 20 + 7*pieces*piece; most > bound {
			t.Errorf("%d were in use, more than %d", most, bound)
		}
		for i, c := range append(append(paths, teams...), all) {
			if !c.Idle() {
				t.Errorf("capacity %d: something stays in use", i)
			}
		}
	})
}

// Fails when a Use has no entry for a level.
func TestCapacitiesNestThreeDeep(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic at the fourth level")
		}
	}()
	NewCapacity(1).Within(1, 0).Within(1, 0).Within(1, 0)
}

// Fails when keys share a capacity, when one waits for another's, or when unused keys are remembered.
func TestT6EachKeyHasItsOwnCapacityWhileItIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := NewCapacity(1000)
		c := NewCapacities[string](all, 1, 0)
		first, err := c.Acquire(t.Context(), "flood", 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Acquire(ctx, "flood", 1); err == nil {
			t.Error("two at once of one key")
		}
		var held []KeyUse[string]
		for i := range 10 * maxSpare {
			u, err := c.Acquire(t.Context(), fmt.Sprint("team-", i), 1)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, u)
		}
		if n := c.Len(); n != 10*maxSpare+1 {
			t.Errorf("%d keys are in use", n)
		}
		for i := range held {
			held[i].Release()
			held[i].Release()
		}
		first.Release()
		if n := c.Len(); n != 0 || len(c.spare) > maxSpare || !all.Idle() {
			t.Errorf("%d keys are in use, %d spare, idle %v", n, len(c.spare), all.Idle())
		}
	})
}

// Fails when keys without a common bound wait for each other.
func TestCapacitiesWithinNothingAreBoundedAlone(t *testing.T) {
	c := NewCapacities[string](nil, 1, 0)
	var held []KeyUse[string]
	for i := range 100 {
		u, err := c.Acquire(t.Context(), fmt.Sprint("team-", i), 1)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, u)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Acquire(ctx, "team-1", 1); err == nil {
		t.Error("two at once of one key")
	}
	if _, ok := c.TryAcquire("team-1", 1); ok {
		t.Error("two at once of one key, without waiting")
	}
	other, ok := c.TryAcquire("other", 1)
	if !ok || c.Len() != len(held)+1 {
		t.Errorf("a key that nobody uses: %t, %d keys are in use", ok, c.Len())
	}
	other.Release()
	for i := range held {
		held[i].Release()
	}
	if n := c.Len(); n != 0 {
		t.Errorf("%d keys are in use", n)
	}
}

// Fails when a use of an existing capacity allocates memory.
func TestAcquireOfAKnownKeyDoesNotAllocate(t *testing.T) {
	c := NewCapacities[string](NewCapacity(10), 5, 2)
	if n := testing.AllocsPerRun(1000, func() {
		u, err := c.Acquire(t.Context(), "team-a", 1)
		if err != nil {
			t.Fatal(err)
		}
		u.Release()
	}); n > 0.1 {
		t.Errorf("%v allocations", n)
	}
}
