package receiver

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"notifier/internal/receiver/limit"
)

// admission bounds what is held in memory for requests that are being read, so that no sender can take it all: each level has its
// own cap, and a request passes from the narrowest to the widest. A request that finds no capacity waits, in order, for a bounded
// time: reading takes well under a millisecond unless a sender dawdles.
type admission struct {
	capacity
	wait time.Duration
}

// capacity is what the caps leave at one level.
type capacity struct {
	requests *semaphore.Weighted
	bodies   limit.BodyCapacity
}

func newCapacity(requests, bodies int64) capacity {
	return capacity{requests: semaphore.NewWeighted(requests), bodies: limit.NewBodyCapacity(bodies)}
}

// permit is capacity that a request holds: its place at every level, and what of its body is kept. A level of bodies without a capacity
// has no bound.
type permit struct {
	places [3]*semaphore.Weighted
	bodies [3]limit.BodyUse
	wait   time.Duration
}

// enter takes a place for a request on rt's path, and reports whether there was one in time.
func (g *admission) enter(ctx context.Context, rt *route) (permit, bool) {
	p := permit{
		places: [3]*semaphore.Weighted{rt.path.capacity.requests, rt.tenant.capacity.requests, g.requests},
		bodies: [3]limit.BodyUse{{Capacity: &rt.path.capacity.bodies}, {Capacity: &rt.tenant.capacity.bodies}, {Capacity: &g.bodies}},
		wait:   g.wait,
	}
	switch {
	case !p.places[0].TryAcquire(1):
		return g.queue(ctx, rt, p)
	case !p.places[1].TryAcquire(1):
		p.places[0].Release(1)
		return g.queue(ctx, rt, p)
	case !p.top(rt):
		p.places[1].Release(1)
		p.places[0].Release(1)
		return g.queue(ctx, rt, p)
	}
	return p, true
}

// top takes a place at the widest level without waiting. The namespace's own reserve comes first, which leaves the total to
// those who need more.
func (p *permit) top(rt *route) bool {
	if rt.tenant.reserve.TryAcquire(1) {
		p.places[2] = rt.tenant.reserve
		return true
	}
	return p.places[2].TryAcquire(1)
}

// queue waits for a place, level by level.
func (g *admission) queue(ctx context.Context, rt *route, p permit) (permit, bool) {
	ctx, cancel := context.WithTimeout(ctx, g.wait)
	defer cancel()
	if p.places[0].Acquire(ctx, 1) != nil {
		return p, false
	}
	if p.places[1].Acquire(ctx, 1) != nil {
		p.places[0].Release(1)
		return p, false
	}
	if p.top(rt) {
		return p, true
	}
	if p.places[2].Acquire(ctx, 1) != nil {
		p.places[1].Release(1)
		p.places[0].Release(1)
		return p, false
	}
	return p, true
}

// grow takes size bytes more for the request's body, and reports whether there was capacity in time.
func (p *permit) grow(ctx context.Context, size int64) bool {
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	for i := range p.bodies {
		if p.bodies[i].Capacity == nil || p.bodies[i].TakeNow(size) {
			continue
		}
		// From the narrowest level to the widest, so that who has the rest of one level never waits for that of a narrower one, and no
		// two wait for each other.
		for k := range p.bodies[:i+1] {
			if p.bodies[k].Capacity != nil && !p.bodies[k].TakeRest(ctx) {
				return false
			}
		}
	}
	return true
}

func (p *permit) leave() {
	for _, place := range p.places {
		place.Release(1)
	}
	p.drop()
}

// drop gives back what is kept of the request's body.
func (p *permit) drop() {
	for i := range p.bodies {
		if p.bodies[i].Capacity != nil {
			p.bodies[i].Give()
		}
	}
}
