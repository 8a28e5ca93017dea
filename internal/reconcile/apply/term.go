package apply

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

const (
	// drainTime bounds the wait for requests and confirmations in flight when a term ends, and for any one confirmation.
	drainTime = 3 * time.Second
	// maxConfirming bounds the messages whose end the bus is confirming beside the work at the same time.
	maxConfirming = 64
)

// term is the work of this replica in one term as the worker.
type term struct {
	*Applier
	began time.Time
	// owned is the fence: it returns false as soon as another replica may write.
	owned func() bool
	// queue runs the items that are due.
	queue *kube.Controller[item]
	// reviews find refusals before a write is tried; nil without Options.Access.
	reviews *reviewer

	mu    sync.Mutex
	jobs  map[item]*job
	slots map[item]*slot
	// claims counts those of each namespace with some.
	claims map[string]int
}

func (a *Applier) newTerm(ctx context.Context) *term {
	t := &term{
		Applier: a, began: time.Now(), owned: event.FenceOf(ctx),
		jobs: map[item]*job{}, slots: map[item]*slot{}, claims: map[string]int{},
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx)) // what is being sent or confirmed outlives the term for so long
	context.AfterFunc(ctx, func() { time.AfterFunc(drainTime, stop) })
	t.queue = kube.NewController(kube.ControllerOptions[item]{
		Workers: a.opts.Workers, Parts: item.parts, Log: a.opts.Log,
		Each: max(1, a.opts.Workers/4), Free: func(it item) bool { return it.key != "" },
		Reconcile: func(_ context.Context, it item) error { return t.work(work, it) },
	})
	if a.opts.Access != nil {
		t.reviews = newReviewer(a, t.owned)
	}
	return t
}

// serve applies triggers until ctx ends, then waits up to drainTime for the work in hand and gives the rest back.
func (a *Applier) serve(ctx context.Context, in <-chan event.Message[event.Trigger]) error {
	t := a.newTerm(ctx)
	a.term.Store(t)
	defer a.term.Store(nil)
	var wg sync.WaitGroup
	wg.Go(func() { t.queue.Run(ctx) })
	if t.reviews != nil {
		t.reviews.all()
		wg.Go(func() { t.reviews.run(ctx) })
	}
	t.receive(ctx, in)
	wg.Wait()
	t.giveBack()
	a.refusals.disown()
	return nil
}

// receive takes in triggers until ctx ends.
func (t *term) receive(ctx context.Context, in <-chan event.Message[event.Trigger]) {
	var confirming errgroup.Group
	defer func() { _ = confirming.Wait() }() // no function returns an error
	confirming.SetLimit(maxConfirming)
	working := time.NewTicker(event.AckWait / 3)
	defer working.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-working.C:
			t.keep()
		case held := <-in:
			if done := t.offer(held); done != nil {
				confirming.Go(func() error { // the confirmations of a flood must not delay other tenants
					t.confirm(context.WithoutCancel(ctx), done)
					return nil
				})
			}
		}
	}
}

// keep reports to the bus that the triggers in hand are in progress.
func (t *term) keep() {
	t.mu.Lock()
	held := make([]event.Message[event.Trigger], 0, len(t.jobs))
	for _, j := range t.jobs {
		held = append(held, j.held)
	}
	t.mu.Unlock()
	for _, h := range held {
		if err := h.InProgress(); err != nil {
			t.opts.Log.Debug("trigger could not be held", "namespace", h.Value.Namespace, "error", err)
		}
	}
}

// giveBack returns the unfinished triggers to the bus, when nothing works on them any more.
func (t *term) giveBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, j := range t.jobs {
		if err := j.held.Nak(); err != nil {
			t.line(j.key.namespace).Warn("trigger not given back, the bus will hand it out again by itself", "error", err)
		}
	}
	t.metrics.triggers.WithLabelValues(resultReturned).Add(float64(len(t.jobs)))
	t.metrics.pending.Set(0)
	clear(t.jobs)
}

// work attempts a request for an object, or resolves the target of a trigger. It enqueues the remaining work and returns no error. It does
// nothing once another replica may be the worker: what this one knows, and how long it has waited, may be from before it was stopped.
func (t *term) work(ctx context.Context, it item) error {
	switch {
	case !t.owned():
	case it.key != "":
		t.expand(ctx, it)
	default:
		t.attempt(ctx, it)
	}
	return nil
}
