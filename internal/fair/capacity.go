package fair

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// maxLevels is the number of capacities that can be nested.
const maxLevels = 3

// Capacity bounds the use of a resource at any time: places, or bytes. Capacities nest (Within): use of one is also use of all
// capacities around it, up to that of the whole process. So each level has a bound: no path takes the whole of its namespace, and
// no namespace takes the whole of the process.
type Capacity struct {
	size   int64
	shared *semaphore.Weighted
	// extra is for the growth of one Use for which shared has too little.
	extra *semaphore.Weighted
	// reserve does not count at parent.
	reserve *semaphore.Weighted
	parent  *Capacity
	level   int
}

// NewCapacity returns an outermost capacity of a size.
func NewCapacity(size int64) *Capacity {
	return &Capacity{size: size, shared: semaphore.NewWeighted(size), extra: semaphore.NewWeighted(1)}
}

// Within returns a capacity of a size that is a part of c. Its first reserve does not count at c, so it is free even when others
// use all of c. Within a nil c it is an outermost one. It panics beyond three levels.
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

// Use is the part of a capacity that one caller uses. Its owner, one goroutine at a time, releases it once. The zero value uses
// nothing.
type Use struct {
	of     *Capacity
	levels [maxLevels]used // from of outwards
}

// used is the use at one level.
type used struct {
	shared, reserved int64
	extra            bool
}

// Use returns an empty use of the capacity, which can grow.
func (c *Capacity) Use() Use { return Use{of: c} }

// TryAcquire takes n if every level has as much free now, and reports whether it did.
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

// Acquire takes n at every level, from the innermost outwards. At each level callers wait in the order of their calls. On an error,
// which is that of ctx, nothing is in use.
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

// fromReserve takes n from the reserve of a level and reports whether it did. The outer levels are then not charged.
func (u *Use) fromReserve(i int, level *Capacity, n int64) bool {
	if level.reserve == nil || !level.reserve.TryAcquire(n) {
		return false
	}
	u.levels[i].reserved += n
	return true
}

// Grow takes n more. On an error, which is that of ctx, Release also gives back the part that was taken.
//
// Uses that grow piece by piece could all wait for each other. So each level has, beyond its size, capacity for all further growth
// of one use at a time. A use that finds too little free waits for that.
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

// exceed takes the extra capacity of a level, after that of all levels within it. A use with a level's extra capacity therefore
// never waits for that of an inner level, so no two uses wait for each other.
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

// Release gives everything back. A second Release does nothing.
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
