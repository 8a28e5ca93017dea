package receiver

import (
	"context"
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

// capacity returns the capacity of the route's path, within that of its namespace. The first request makes it: most Receivers wait long for
// theirs, and there may be tens of thousands.
func (t *Table) capacity(rt *route) capacity {
	p := rt.path
	p.first.Do(func() { p.capacity = t.ofTenant(rt.owner.tenant).ofPath(t.limits) })
	return p.capacity
}

// ofTenant returns the capacity of a namespace, made as that of a path.
func (t *Table) ofTenant(n *tenant) capacity {
	n.first.Do(func() { n.capacity = t.all.ofNamespace(t.limits) })
	return n.capacity
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
