package receiver

import (
	"context"
	"time"

	"notifier/internal/fair"
	"notifier/internal/receiver/limit"
)

// capacity bounds the requests at one level, of a path, of its namespace or of all: the number of those that are being read, the bytes that
// are kept of their bodies, and the triggers of those that are being stored. Use at one level counts at the levels around it, so that no
// sender can take everything.
type capacity struct{ requests, bodies, triggers *fair.Capacity }

func newCapacity(l Limits) capacity {
	return capacity{fair.NewCapacity(l.Requests.Total), fair.NewCapacity(l.Bodies.Total), fair.NewCapacity(l.Triggers.Total)}
}

// ofNamespace returns the capacity of a namespace within that of all.
func (c capacity) ofNamespace(l Limits) capacity {
	return capacity{
		c.requests.Within(l.Requests.Namespace, l.Requests.Reserve), c.bodies.Within(l.Bodies.Namespace, l.Bodies.Reserve),
		c.triggers.Within(l.Triggers.Namespace, l.Triggers.Reserve),
	}
}

// ofPath returns the capacity of a path within that of its namespace.
func (c capacity) ofPath(l Limits) capacity {
	return capacity{c.requests.Within(l.Requests.Path, 0), c.bodies.Within(l.Bodies.Path, 0), c.triggers.Within(l.Triggers.Path, 0)}
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
	return acquire(ctx, c.requests, 1, wait)
}

// reserve takes the room for a number of triggers to be stored, and reports whether it was free in time.
func (c capacity) reserve(ctx context.Context, triggers int64, wait time.Duration) (room fair.Use, ok bool) {
	return acquire(ctx, c.triggers, triggers, wait)
}

func acquire(ctx context.Context, of *fair.Capacity, n int64, wait time.Duration) (u fair.Use, ok bool) {
	if u, ok = of.TryAcquire(n); ok {
		return u, true
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	u, err := of.Acquire(ctx, n)
	return u, err == nil
}

// body returns the body of a request that is kept within a capacity. It waits up to the same time whenever it grows.
func (t *Table) body(within *fair.Capacity) limit.Body {
	return limit.Body{Max: limit.MaxBody, Use: within.Use(), Wait: t.limits.Wait}
}
