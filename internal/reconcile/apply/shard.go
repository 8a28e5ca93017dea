package apply

import (
	"context"
	"sync"
	"time"

	"notifier/internal/event"
)

// drainTime bounds the wait for requests in flight when a shard is given up.
const drainTime = 3 * time.Second

// shard is one term of ownership of one shard. The Applier's lock protects it.
type shard struct {
	began time.Time
	// owned is the fence: it returns false as soon as another replica may write for the shard.
	owned      func() bool
	jobs       map[jobKey]*job
	namespaces map[string]bool
	// closed reports that the term is over. empty is closed when the last job of a closed shard ends.
	closed bool
	empty  chan struct{}
}

// serve applies the triggers of one shard until ctx ends, then finishes the requests in flight and gives the rest back.
func (a *Applier) serve(ctx context.Context, number int, in <-chan event.Message[event.Trigger]) error {
	sh := &shard{
		began: time.Now(), owned: event.FenceOf(ctx), jobs: map[jobKey]*job{}, namespaces: map[string]bool{}, empty: make(chan struct{}),
	}
	a.mu.Lock()
	a.shards[number] = sh
	a.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer a.drain(ctx, sh)
	defer a.lose(number)
	a.reviews.all(func(namespace string) bool { return a.opts.Bus.TriggerShard(namespace) == number })
	working := time.NewTicker(event.AckWait / 3)
	defer working.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-working.C:
			a.keep(sh)
		case held, ok := <-in:
			if !ok {
				return nil
			}
			done, taken := a.offer(sh, held)
			if !taken {
				a.giveBack(held)
			}
			if done != nil {
				a.storing <- struct{}{} // the confirmations of a flood must not delay the shard's other tenants
				wg.Go(func() {
					defer func() { <-a.storing }()
					a.confirm(ctx, *done)
				})
			}
		}
	}
}

// lose ends the reviews of a shard.
func (a *Applier) lose(number int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.shards, number)
}

// shardOf returns the shard of a namespace, nil unless this replica owns it.
func (a *Applier) shardOf(namespace string) *shard {
	number := a.opts.Bus.TriggerShard(namespace)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shards[number]
}

// keepsNamespace reports whether the replica still owns the shard, and records that its reports on the namespace end with the term.
func (a *Applier) keepsNamespace(sh *shard, namespace string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if sh.closed || !sh.owned() {
		return false
	}
	sh.namespaces[namespace] = true
	return true
}

// keep reports to the bus that the shard's triggers are in progress.
func (a *Applier) keep(sh *shard) {
	a.mu.Lock()
	held := make([]event.Message[event.Trigger], 0, len(sh.jobs))
	for _, j := range sh.jobs {
		held = append(held, j.held)
	}
	a.mu.Unlock()
	for _, h := range held {
		if err := h.InProgress(); err != nil {
			a.opts.Log.Debug("trigger could not be held", "namespace", h.Value.Namespace, "error", err)
		}
	}
}

// drain closes the shard: requests in flight may end within drainTime, and everything else goes back to the bus.
func (a *Applier) drain(ctx context.Context, sh *shard) {
	a.mu.Lock()
	sh.closed = true
	var settles []settle
	for _, j := range sh.jobs {
		if j.stale {
			j.stale, j.partial = false, true
		}
		for k, at := range j.pending {
			if at.inFlight {
				continue
			}
			a.unclaim(k, at)
			j.partial = true
		}
		settles = append(settles, a.finish(j))
	}
	waiting := len(sh.jobs) > 0
	a.mu.Unlock()
	for _, settle := range settles {
		settle(ctx)
	}
	if waiting {
		select {
		case <-sh.empty:
		case <-time.After(drainTime):
			a.abandon(sh)
		}
	}
	a.refusals.disown(sh.namespaces)
}

// unclaim removes a claim from its slot. The caller holds the lock.
func (a *Applier) unclaim(k slotKey, at *attempt) {
	a.drop(at.job, k)
	a.slots[k].leave(at)
}

// abandon gives back the triggers whose requests are still in flight. The results of those requests are ignored.
func (a *Applier) abandon(sh *shard) {
	a.mu.Lock()
	var held []event.Message[event.Trigger]
	for _, j := range sh.jobs {
		for k, at := range j.pending {
			a.unclaim(k, at)
		}
		held = append(held, j.held)
		a.forget(j)
		a.metrics.triggers.WithLabelValues(resultReturned).Inc()
	}
	a.mu.Unlock()
	for _, h := range held {
		a.giveBack(h)
	}
}
