package receiver

import (
	"context"
	"sync/atomic"
	"time"

	"notifier/internal/fair"
	"notifier/internal/receiver/limit"
)

// capacity bounds the requests that are being read at one level, of a path, of its namespace or of all: their number, and the bytes that
// are kept of their bodies. Use at one level counts at the levels around it, so that no sender can take everything.
type capacity struct{ requests, bodies *fair.Capacity }

func newCapacity(l Limits) capacity {
	return capacity{fair.NewCapacity(l.Requests.Total), fair.NewCapacity(l.Bodies.Total)}
}

// ofNamespace returns the capacity of a namespace within that of all.
func (c capacity) ofNamespace(l Limits) capacity {
	return capacity{c.requests.Within(l.Requests.Namespace, l.Requests.Reserve), c.bodies.Within(l.Bodies.Namespace, l.Bodies.Reserve)}
}

// ofPath returns the capacity of a path within that of its namespace.
func (c capacity) ofPath(l Limits) capacity {
	return capacity{c.requests.Within(l.Requests.Path, 0), c.bodies.Within(l.Bodies.Path, 0)}
}

// lazyCapacity is a capacity that is made for the first request: most Receivers wait long for theirs, and there may be tens of thousands.
type lazyCapacity struct{ made atomic.Pointer[capacity] }

// get returns the capacity. The first call makes it.
func (l *lazyCapacity) get(first func() capacity) capacity {
	if made := l.made.Load(); made != nil {
		return *made
	}
	made := first()
	l.made.CompareAndSwap(nil, &made)
	return *l.made.Load()
}

// idle reports whether nothing of the capacity is in use or waited for.
func (l *lazyCapacity) idle() bool {
	made := l.made.Load()
	return made == nil || made.requests.Idle() // any use of capacity includes a place
}

// capacity returns the capacity of the route's path, within that of its namespace.
func (t *Table) capacity(rt *route) capacity {
	return rt.path.capacity.get(func() capacity {
		namespace := rt.owner.tenant.capacity.get(func() capacity { return t.all.ofNamespace(t.limits) })
		return namespace.ofPath(t.limits)
	})
}

// enter takes a place for a request, and reports whether one was free in time. Requests wait for a place in order: reading takes well under
// a millisecond unless the sender is slow.
func (c capacity) enter(ctx context.Context, wait time.Duration) (place fair.Use, ok bool) {
	if place, ok = c.requests.TryAcquire(1); ok {
		return place, true
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	place, err := c.requests.Acquire(ctx, 1)
	return place, err == nil
}

// body returns the body of a request that is kept within a capacity. It waits up to the same time whenever it grows.
func (t *Table) body(within *fair.Capacity) limit.Body {
	return limit.Body{Max: limit.MaxBody, Use: within.Use(), Wait: t.limits.Wait}
}
