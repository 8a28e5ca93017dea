package receiver

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// gate bounds what is held in memory for requests that are being read, so that no sender can take it all: each level has its
// own cap, and a request passes from the narrowest to the widest. A request that finds no room waits, in order, for a bounded
// time: reading takes well under a millisecond unless a sender dawdles.
type gate struct {
	total *semaphore.Weighted
	wait  time.Duration
}

// pass is room that a request holds.
type pass struct {
	path, tenant, top *semaphore.Weighted
	size              int64
}

// enter takes size bytes for a request on rt's path, and reports whether there was room in time. The namespace's reserve is
// tried before the total, so that other namespaces cannot use it up.
func (g *gate) enter(ctx context.Context, rt *route, size int64) (pass, bool) {
	p := pass{path: rt.line.room, tenant: rt.tenant.room, top: g.total, size: size}
	if p.path.TryAcquire(size) {
		if p.tenant.TryAcquire(size) {
			if rt.tenant.reserve.TryAcquire(size) {
				p.top = rt.tenant.reserve
				return p, true
			}
			if p.top.TryAcquire(size) {
				return p, true
			}
			p.tenant.Release(size)
		}
		p.path.Release(size)
	}
	return g.queue(ctx, p, rt.tenant.reserve)
}

// queue waits for p's room, level by level.
func (g *gate) queue(ctx context.Context, p pass, reserve *semaphore.Weighted) (pass, bool) {
	ctx, cancel := context.WithTimeout(ctx, g.wait)
	defer cancel()
	if p.path.Acquire(ctx, p.size) != nil {
		return p, false
	}
	if p.tenant.Acquire(ctx, p.size) != nil {
		p.path.Release(p.size)
		return p, false
	}
	if reserve.TryAcquire(p.size) {
		p.top = reserve
		return p, true
	}
	if p.top.Acquire(ctx, p.size) != nil {
		p.tenant.Release(p.size)
		p.path.Release(p.size)
		return p, false
	}
	return p, true
}

func (p pass) leave() {
	p.top.Release(p.size)
	p.tenant.Release(p.size)
	p.path.Release(p.size)
}
