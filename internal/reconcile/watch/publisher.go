package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"notifier/internal/event"
	"notifier/internal/fair"
	"notifier/internal/reconcile/kube"
)

// item names an object, or with an empty name a whole kind.
type item struct {
	kind            *Kind
	namespace, name string
}

func (it item) String() string { return it.kind.Kind + "/" + it.namespace + "/" + it.name }

func (it item) parts() (namespace, name string) { return it.namespace, it.kind.Kind + "/" + it.name }

// lastPublished is an object's last published state, as the bus's key-value store keeps it.
type lastPublished struct {
	state
	// Since is the time of the Ready condition's transition into the state.
	Since time.Time `json:"since"`
	// Observed is when the watcher saw the state or, if that was earlier, when the event that told it was accepted. Older POSTs are about
	// earlier states.
	Observed time.Time `json:"observed"`
	// Ordinal counts the published transitions of this UID.
	Ordinal uint64 `json:"ordinal"`
}

// publishers bounds the number of transitions that are published at once.
const publishers = 32

// The pauses between attempts when the bus fails.
const (
	minBusPause = 200 * time.Millisecond
	maxBusPause = 30 * time.Second
)

// publisher is one term: it publishes transitions from its start to the end of its context.
type publisher struct {
	opts    *Options
	log     *slog.Logger
	metrics *metrics
	cache   *Watcher
	posts   *posts
	queue   *kube.Controller[item]
	lines   *fair.Lines

	// began is the begin of the term.
	began time.Time
	// followed is the sequence of the last event that the follower has taken.
	followed atomic.Uint64

	mu       sync.Mutex
	subjects map[item]*subject
	// posted is when a POST about an object of a kind was last accepted.
	posted map[*Kind]time.Time
	// recorded are the kinds whose baseline is recorded, baselined when the last of them was before this term. publishing has the informer whose
	// observations count.
	recorded   map[*Kind]bool
	baselined  time.Time
	publishing map[*Kind]*informer
}

// Lead publishes transitions until ctx ends, and joins all goroutines that it started. It is called during a term, beside Run; a second
// concurrent call is an error.
func (w *Watcher) Lead(ctx context.Context) error {
	t := &publisher{
		opts: &w.opts, log: w.log, metrics: w.metrics, cache: w, posts: newPosts(w.metrics.posts), lines: fair.NewLines(),
		began: time.Now(), posted: map[*Kind]time.Time{},
		subjects: map[item]*subject{}, recorded: map[*Kind]bool{}, publishing: map[*Kind]*informer{},
	}
	t.queue = kube.NewController(kube.ControllerOptions[item]{
		Workers: publishers, Parts: item.parts, Reconcile: t.work, Observe: t.observed,
		MinBackoff: minBusPause, MaxBackoff: maxBusPause, Log: t.log,
	})
	if !w.leading.CompareAndSwap(nil, t) {
		return errors.New("already leading")
	}
	defer t.resetGauges()
	defer w.leading.Store(nil)
	select {
	case <-w.begun: // nothing is compared before
	case <-ctx.Done():
		return nil
	}
	if !t.load(ctx) {
		return nil
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	caughtUp := make(chan struct{})
	wg.Go(func() { t.follow(ctx, caughtUp) })
	select {
	case <-caughtUp: // a state may be told by each event of the time before
	case <-ctx.Done():
		return nil
	}
	for _, kind := range kinds {
		t.kindChanged(kind)
	}
	t.queue.Run(ctx)
	return nil
}

// resetGauges sets the gauges to the values of a replica that does not lead, and has what informers still report not count.
func (t *publisher) resetGauges() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.publishing)
	t.metrics.waiting.Set(0)
	t.metrics.posts.Set(0)
	for _, kind := range kinds {
		t.metrics.publishing.WithLabelValues(kind.Kind).Set(0)
	}
}

// kindChanged enqueues the kind to be begun (again).
func (t *publisher) kindChanged(kind *Kind) { t.queue.Enqueue(item{kind: kind}) }

// kindStopped ends the publishing of the kind until it is begun again.
func (t *publisher) kindStopped(kind *Kind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.publishing, kind)
	t.metrics.publishing.WithLabelValues(kind.Kind).Set(0)
}

// work settles the first pending transition of an object, or without a name begins a kind.
func (t *publisher) work(ctx context.Context, it item) error {
	work := t.settle
	if it.name == "" {
		work = t.begin
	}
	if err := work(ctx, it); err != nil {
		t.failed(it)
		return fmt.Errorf("transition not published yet: %w", err)
	}
	return nil
}

// failed begins the bounds on the waits of an object's first pending transition anew, as they do not count an outage of the bus.
func (t *publisher) failed(it item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.subjects[it]; s != nil && len(s.pending) > 0 {
		s.pending[0].overtaken, s.pending[0].disputed = 0, time.Time{}
	}
}

// observed counts the failures.
func (t *publisher) observed(result kube.Result, _ time.Duration) {
	if result != kube.ResultOK {
		t.metrics.errors.Inc()
	}
}

// follow takes the accepted POSTs, from before the newest record on: the states of later ones may not have settled. Once it has those of the
// time before, it queues the transitions without a record and closes caughtUp.
func (t *publisher) follow(ctx context.Context, caughtUp chan<- struct{}) {
	before := newUnrecorded(t)
	t.opts.Events.FollowEvents(ctx, t.newestRecord().Add(-recordLag), func(r *event.Record) {
		if before != nil {
			before.add(r)
		}
		t.take(r)
		t.followed.Store(r.Seq)
	}, func() {
		before.push()
		before = nil
		close(caughtUp)
	})
}

// take makes a post of a record that may cover a transition. The record must be POSTed and not doubted, and the events endpoint must
// have known its object by that UID. The cache may know another one still: a list may show an object that was made anew late.
func (t *publisher) take(r *event.Record) {
	o := r.Event.InvolvedObject
	kind := kindNamed(o.Kind)
	if kind == nil {
		return
	}
	it := item{kind, o.Namespace, o.Name}
	if r.Source == event.SourceWatch {
		t.published(it, r.Seq)
	}
	if r.Source != event.SourcePost || !r.Known || r.Doubted {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.posted[kind] = r.Accepted
	if r.Outcome == event.OutcomeNone {
		return
	}
	if s := t.subjects[it]; s != nil && r.Seq <= s.published {
		return
	}
	t.posts.add(postOf(it, r))
}

// current returns the cached object, nil if there is none.
func (t *publisher) current(it item) *object {
	if in := t.cache.informerOf(it.kind); in != nil {
		return in.get(it.namespace, it.name)
	}
	return nil
}

// published takes in that an event of a watcher is stored. The POSTs before it cover nothing: they did not tell the state last.
func (t *publisher) published(it item, seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.subjects[it]; s != nil {
		s.published = max(s.published, seq)
	}
	t.posts.drop(it, seq)
}
