package fair

import (
	"context"
	"sync"
)

// maxSpare bounds the unused capacities that are kept for the next keys.
const maxSpare = 64

// Capacities have one Capacity for each key. A key has one only while some of it is in use or waited for, so their number is
// bounded by the number of callers, for any keys.
type Capacities[K comparable] struct {
	within        *Capacity
	size, reserve int64

	mu    sync.Mutex
	keys  map[K]*keyCapacity
	spare []*keyCapacity
}

// keyCapacity is the Capacity of one key. Capacities.mu protects users.
type keyCapacity struct {
	*Capacity
	users int
}

// NewCapacities returns capacities of a size within another one. If within is nil, all keys together have no bound. See
// Capacity.Within for the reserve.
func NewCapacities[K comparable](within *Capacity, size, reserve int64) *Capacities[K] {
	return &Capacities[K]{within: within, size: size, reserve: reserve, keys: map[K]*keyCapacity{}}
}

// KeyUse is the part of a key's capacity that one caller uses. Its owner releases it once.
type KeyUse[K comparable] struct {
	Use
	of  *Capacities[K]
	key K
}

// Acquire takes n of a key's capacity, and of those around it. It waits until ctx ends and then returns the error of ctx.
func (c *Capacities[K]) Acquire(ctx context.Context, key K, n int64) (KeyUse[K], error) {
	use, err := c.enter(key).Acquire(ctx, n)
	if err != nil {
		c.leave(key)
		return KeyUse[K]{}, err
	}
	return KeyUse[K]{use, c, key}, nil
}

// TryAcquire takes n of a key's capacity, and of those around it, if they have as much free now. It reports whether they had.
func (c *Capacities[K]) TryAcquire(key K, n int64) (KeyUse[K], bool) {
	use, ok := c.enter(key).TryAcquire(n)
	if !ok {
		c.leave(key)
		return KeyUse[K]{}, false
	}
	return KeyUse[K]{use, c, key}, true
}

// Use returns an empty use of a key's capacity, which can grow.
func (c *Capacities[K]) Use(key K) KeyUse[K] { return KeyUse[K]{c.enter(key).Use(), c, key} }

// Release gives everything back. A second Release does nothing.
func (u *KeyUse[K]) Release() {
	if u.of == nil {
		return
	}
	u.Use.Release()
	u.of.leave(u.key)
	*u = KeyUse[K]{}
}

// Len returns the number of keys whose capacity is in use or waited for.
func (c *Capacities[K]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.keys)
}

func (c *Capacities[K]) enter(key K) *Capacity {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[key]
	if k == nil {
		if last := len(c.spare) - 1; last >= 0 {
			k, c.spare = c.spare[last], c.spare[:last]
		} else {
			k = &keyCapacity{Capacity: c.within.Within(c.size, c.reserve)}
		}
		c.keys[key] = k
	}
	k.users++
	return k.Capacity
}

func (c *Capacities[K]) leave(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[key]
	if k.users--; k.users > 0 {
		return
	}
	delete(c.keys, key)
	if len(c.spare) < maxSpare {
		c.spare = append(c.spare, k)
	}
}
