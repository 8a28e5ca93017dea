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

// pass is room that a request holds, level by level, and what its body took beyond it.
type pass struct {
	path, tenant, top, total *semaphore.Weighted
	size, more               int64
	wait                     time.Duration
}

// enter takes size bytes for a request on rt's path, and reports whether there was room in time.
func (g *gate) enter(ctx context.Context, rt *route, size int64) (pass, bool) {
	p := pass{path: rt.line.room, tenant: rt.tenant.room, total: g.total, size: size, wait: g.wait}
	if !p.path.TryAcquire(size) {
		return g.queue(ctx, rt, p)
	}
	if !p.tenant.TryAcquire(size) {
		p.path.Release(size)
		return g.queue(ctx, rt, p)
	}
	if p.top = g.top(rt, size); p.top == nil {
		p.tenant.Release(size)
		p.path.Release(size)
		return g.queue(ctx, rt, p)
	}
	return p, true
}

// top takes room at the widest level without waiting, and returns what it was taken from. The namespace's own reserve
// comes first, which leaves the total to those who need more.
func (g *gate) top(rt *route, size int64) *semaphore.Weighted {
	for _, s := range []*semaphore.Weighted{rt.tenant.reserve, g.total} {
		if s.TryAcquire(size) {
			return s
		}
	}
	return nil
}

// queue waits for room, level by level.
func (g *gate) queue(ctx context.Context, rt *route, p pass) (pass, bool) {
	ctx, cancel := context.WithTimeout(ctx, g.wait)
	defer cancel()
	if p.path.Acquire(ctx, p.size) != nil {
		return p, false
	}
	if p.tenant.Acquire(ctx, p.size) != nil {
		p.path.Release(p.size)
		return p, false
	}
	if p.top = g.top(rt, p.size); p.top != nil {
		return p, true
	}
	if g.total.Acquire(ctx, p.size) != nil {
		p.tenant.Release(p.size)
		p.path.Release(p.size)
		return p, false
	}
	p.top = g.total
	return p, true
}

// grow takes size bytes more for the request's body, and reports whether there was room in time.
func (p *pass) grow(ctx context.Context, size int64) bool {
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	for i, level := range []*semaphore.Weighted{p.path, p.tenant, p.total} {
		if level.Acquire(ctx, size) == nil {
			continue
		}
		for _, taken := range []*semaphore.Weighted{p.path, p.tenant, p.total}[:i] {
			taken.Release(size)
		}
		return false
	}
	p.more += size
	return true
}

func (p *pass) leave() {
	p.top.Release(p.size)
	p.total.Release(p.more)
	p.tenant.Release(p.size + p.more)
	p.path.Release(p.size + p.more)
}

// acquire takes size bytes of room, waiting for it no longer than wait.
func acquire(ctx context.Context, room *semaphore.Weighted, size int64, wait time.Duration) bool {
	if room.TryAcquire(size) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return room.Acquire(ctx, size) == nil
}
