package fair

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// maxLevels is how many capacities can be nested.
const maxLevels = 3

// Capacity bounds how much is in use at once: places, or bytes. Capacities nest (Within): what is in use of one is in use of all that it
// is within, up to the one of the whole process. So each level has a bound, and no path takes what its namespace has, nor a namespace
// what all have.
type Capacity struct {
	size   int64
	shared *semaphore.Weighted
	// extra is where the growth of one Use goes that finds no room in shared.
	extra *semaphore.Weighted
	// reserve is what does not count at parent.
	reserve *semaphore.Weighted
	parent  *Capacity
	level   int
}

// NewCapacity returns the outermost capacity, of a size.
func NewCapacity(size int64) *Capacity {
	return &Capacity{size: size, shared: semaphore.NewWeighted(size), extra: semaphore.NewWeighted(1)}
}

// Within returns a capacity of a size that is a part of c. The first reserve of it does not count at c: it is there also when all of c is
// in use by others. Within nil it is an outermost one. It panics beyond three levels.
func (c *Capacity) Within(size, reserve int64) *Capacity {
	inner := NewCapacity(size)
	if c == nil {
		return inner
	}
	if c.level+1 >= maxLevels {
		panic("fair: capacities are nested too deep")
	}
	inner.parent, inner.level = c, c.level+1
	if reserve > 0 {
		inner.reserve = semaphore.NewWeighted(reserve)
	}
	return inner
}

// Use is what is in use of a capacity. Its owner, one goroutine at a time, releases it once. The zero value is nothing in use.
type Use struct {
	of     *Capacity
	levels [maxLevels]used // from of outwards
}

// used is what is in use at one level.
type used struct {
	shared, reserved int64
	extra            bool
}

// Use returns a use of the capacity that grows from nothing.
func (c *Capacity) Use() Use { return Use{of: c} }

// TryAcquire takes n if there is room at every level now, and reports whether there was.
func (c *Capacity) TryAcquire(n int64) (Use, bool) {
	u := c.Use()
	for i, level := 0, c; level != nil; i, level = i+1, level.parent {
		if !level.shared.TryAcquire(n) {
			u.Release()
			return Use{}, false
		}
		u.levels[i].shared = n
		if u.fromReserve(i, level, n) {
			break
		}
	}
	return u, true
}

// Acquire takes n at every level, from the innermost outwards, and waits for it at each in the order of the calls. The error is that of
// ctx, and nothing is in use then.
func (c *Capacity) Acquire(ctx context.Context, n int64) (Use, error) {
	u := c.Use()
	for i, level := 0, c; level != nil; i, level = i+1, level.parent {
		if err := level.shared.Acquire(ctx, n); err != nil {
			u.Release()
			return Use{}, err
		}
		u.levels[i].shared = n
		if u.fromReserve(i, level, n) {
			break
		}
	}
	return u, nil
}

// fromReserve takes n from the reserve of a level, so that those further out are not asked.
func (u *Use) fromReserve(i int, level *Capacity, n int64) bool {
	if level.reserve == nil || !level.reserve.TryAcquire(n) {
		return false
	}
	u.levels[i].reserved += n
	return true
}

// Grow takes n more. Uses that grow piece by piece could all end up waiting for what the others hold, so each level has, beside its size,
// room for all further growth of one use at a time: who finds no room waits for that. The error is that of ctx, and what was taken is
// released with the rest.
func (u *Use) Grow(ctx context.Context, n int64) error {
	for i, level := 0, u.of; level != nil; i, level = i+1, level.parent {
		switch held := &u.levels[i]; {
		case held.extra:
		case level.shared.TryAcquire(n):
			held.shared += n
			if u.fromReserve(i, level, n) {
				return nil
			}
		default:
			if err := u.exceed(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// exceed takes the extra room of a level, and before that of all within it: a use that has a level's extra room never waits for that of an
// inner one, so no two wait for each other.
func (u *Use) exceed(ctx context.Context, outermost int) error {
	for i, level := 0, u.of; i <= outermost; i, level = i+1, level.parent {
		if u.levels[i].extra {
			continue
		}
		if err := level.extra.Acquire(ctx, 1); err != nil {
			return err
		}
		u.levels[i].extra = true
	}
	return nil
}

// Release gives everything back. Releasing once more does nothing.
func (u *Use) Release() {
	for i, level := 0, u.of; level != nil; i, level = i+1, level.parent {
		held := u.levels[i]
		if held.shared > 0 {
			level.shared.Release(held.shared)
		}
		if held.reserved > 0 {
			level.reserve.Release(held.reserved)
		}
		if held.extra {
			level.extra.Release(1)
		}
	}
	*u = Use{}
}

// Idle reports whether nothing of the capacity is in use or waited for, so that its owner may forget it.
func (c *Capacity) Idle() bool {
	return wasFree(c.shared, c.size) && wasFree(c.extra, 1)
}

func wasFree(s *semaphore.Weighted, size int64) bool {
	if !s.TryAcquire(size) {
		return false
	}
	s.Release(size)
	return true
}
