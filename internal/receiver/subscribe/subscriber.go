package subscribe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"notifier/internal/event"
	"notifier/internal/fair"
	"notifier/internal/options"
	"notifier/internal/receiver"
	"notifier/internal/receiver/answer"
)

// EventFeed is the part of the bus that the subscriber uses: it calls serve while this replica reads events for Receivers.
type EventFeed interface {
	Subscribe(ctx context.Context, serve func(ctx context.Context, events event.Reader) error) error
}

// LoopReports keeps each Receiver's Loop, for its status and for the next worker.
type LoopReports interface {
	receiver.Reports
	// All calls each with every report.
	All(ctx context.Context, each func(key string, value []byte)) error
	// Watch calls each with every report, and then with each that is put, until ctx ends. The value of a removed one is nil.
	Watch(ctx context.Context, each func(key string, value []byte)) error
}

const (
	// clockTick is the precision of pauses. idleTick is the interval at which events are skipped while there is no Receiver of type event.
	clockTick = time.Second
	idleTick  = 5 * time.Second
	// flushTime bounds one flush of triggers and reports.
	flushTime = 4 * time.Second
	// mostTogether bounds the triggers of one publish. Those on the bus need not be published again when later ones fail. After a failure
	// half as many are published together: the server may be slow.
	mostTogether = 128
)

// Options are the options of New. All but Registerer are required.
type Options struct {
	Events        EventFeed
	Triggers      receiver.Triggers
	Subscriptions *Subscriptions
	Reports       LoopReports
	// Gate is closed when Subscriptions is complete. An event that was read earlier would miss Receivers.
	Gate       <-chan struct{}
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Subscriber triggers the Receivers of type event.
type Subscriber struct {
	Options
	counters map[string]prometheus.Counter // by result
}

// New returns a Subscriber, or an error if an option is missing.
func New(o Options) (*Subscriber, error) {
	if err := options.Missing(map[string]bool{
		"Events": o.Events == nil, "Triggers": o.Triggers == nil, "Subscriptions": o.Subscriptions == nil, "Reports": o.Reports == nil,
		"Gate": o.Gate == nil, "Log": o.Log == nil,
	}); err != nil {
		return nil, fmt.Errorf("subscriber: %w", err)
	}
	return &Subscriber{Options: o, counters: newEventMetrics(o.Registerer)}, nil
}

// Run triggers until ctx ends.
func (s *Subscriber) Run(ctx context.Context) error {
	select {
	case <-s.Gate:
	case <-ctx.Done():
		return nil
	}
	return s.Events.Subscribe(ctx, s.serve)
}

// serve reads events for one term.
func (s *Subscriber) serve(ctx context.Context, events event.Reader) error {
	return s.begin().serve(ctx, events)
}

func (w *watch) serve(ctx context.Context, events event.Reader) error {
	if err := w.restore(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { w.keepTime(ctx); return nil })
	g.Go(func() error { w.followReports(ctx); return nil })
	g.Go(func() error {
		w.idle(ctx, events)
		return events.Read(ctx, w.handle)
	})
	return g.Wait()
}

// begin returns the state of a new term.
func (s *Subscriber) begin() *watch {
	return &watch{
		Subscriber: s, guards: map[subscriber]*guard{}, triggers: map[triggerID]event.Trigger{}, held: map[triggerID]event.Trigger{},
		triggered: map[*Subscription]bool{}, reports: map[subscriber][]byte{}, together: mostTogether,
	}
}

// idle skips events until there is a Receiver of type event.
func (s *Subscriber) idle(ctx context.Context, events event.Reader) {
	for ctx.Err() == nil && s.Subscriptions.empty() {
		if err := events.Skip(ctx, s.Subscriptions.empty); err != nil {
			s.Log.Warn("events that nobody wants cannot be skipped and are read", "error", err)
			return
		}
		select {
		case <-ctx.Done():
		case <-s.Subscriptions.filled:
		case <-time.After(idleTick):
		}
	}
}

// subscriber is a Receiver's key, triggerID the identity of a Receiver's trigger. Triggers of several Receivers may have one key, and so be one
// message on the bus. Here each is kept for itself: a Receiver that is gone takes its own with it, and no other's.
type (
	subscriber struct{ namespace, name string }
	triggerID  struct{ namespace, receiver, key string }
)

// watch is the state of one term. Memory is bounded by the Receivers of type event and their targets.
type watch struct {
	*Subscriber
	mu     sync.Mutex
	guards map[subscriber]*guard
	// evaluated is the last evaluated event: an event that is handled again must not count as another round.
	evaluated uint64
	// triggers and reports are those that the bus has not confirmed yet.
	triggers map[triggerID]event.Trigger
	reports  map[subscriber][]byte
	// together is how many triggers are published together.
	together int
	// held are the triggers of namespaces that have too many on the bus. They are published when there is room, and delay no other namespace.
	// If this term ends before, the next worker triggers their Receivers: see Loop.Held.
	held map[triggerID]event.Trigger
	// triggered are the subscriptions that the present batch triggers.
	triggered map[*Subscription]bool
	wanting   []subscribed // reused from event to event
	// outcomes are those of the present batch, not yet counted.
	outcomes []eventOutcome
}

// eventOutcome is the outcome of an event for one Receiver, with the answer that a webhook would have had.
type eventOutcome struct {
	stats    *receiver.Stats
	answer   *answer.Answer
	received receiver.Received
}

// The outcomes of an event, as answers to a webhook. eventForged is for an event that any sender may have sent (invariant E9).
var (
	eventAccepted = answer.Silent(http.StatusOK, "accepted", "")
	eventFolded   = &answer.Answer{Status: http.StatusAccepted, Result: "folded", Folded: true}
	eventForged   = answer.Refused(http.StatusBadRequest, "unknown", "no object is known of the event's kind, name and UID", "")
)

// restore continues from the state of the last term: delayed events stay delayed, and trigger after a pause. What had no room on the bus
// triggers.
func (w *watch) restore(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	err := w.Reports.All(ctx, func(key string, value []byte) {
		id, l, ours := reportOf(key, value)
		if !ours {
			return
		}
		s, exists := w.Subscriptions.get(id)
		if !exists {
			w.reports[id] = nil
			return
		}
		if l.Looping || l.Held {
			w.guards[id] = restored(l, now)
		}
		if l.Held && w.guards[id].of(s) {
			w.resume(s, now)
		}
	})
	if err != nil {
		return fmt.Errorf("read loops: %w", err)
	}
	return nil
}

// handle triggers for a batch of events. It returns nil when the triggers and the reports are on disk, and only then counts the events:
// until then the next worker may have to handle them.
func (w *watch) handle(ctx context.Context, batch []*event.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	clear(w.triggered)
	for _, r := range batch {
		if r.Seq > w.evaluated {
			w.evaluate(r, now)
			w.evaluated = r.Seq
		}
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	for _, o := range w.outcomes {
		o.stats.Count(o.answer, o.received, now)
	}
	w.outcomes = nil
	return nil
}

func (w *watch) evaluate(r *event.Record, now time.Time) {
	w.wanting = w.Subscriptions.wanting(r, w.wanting[:0])
	for _, s := range w.wanting {
		if !r.Known {
			w.counters[eventUnknown].Inc()
			w.outcomes = append(w.outcomes, eventOutcome{s.stats, eventForged, receiver.Received{}})
			continue
		}
		id := subscriber{s.Namespace, s.Name}
		g := w.guards[id]
		if g == nil || !g.of(s.Subscription) {
			w.succeed(id, s.Subscription, now)
			g = w.guards[id]
		}
		triggers, changed := g.evaluate(r.Event.InvolvedObject, now)
		if changed {
			w.report(id, g)
			w.Log.Warn("a Receiver seems to trigger its own events, they are held back", "namespace", s.Namespace, "receiver", s.Name,
				"kind", g.stop.loop.Kind, "object", g.stop.loop.Object, "pause", g.stop.loop.Pause.String())
		}
		if triggers {
			w.counters[eventTriggered].Inc()
			if !w.triggered[s.Subscription] { // the targets of a Receiver may be many, and are the same for each event
				w.triggered[s.Subscription] = true
				w.trigger(s.Subscription, now)
			}
			w.outcomes = append(w.outcomes, eventOutcome{s.stats, eventAccepted, receiver.Received{ID: r.ID, Proved: true, Targets: s.targets}})
		} else {
			w.counters[eventHeld].Inc()
			w.outcomes = append(w.outcomes, eventOutcome{s.stats, eventFolded, receiver.Received{ID: r.ID, Proved: true}})
		}
	}
}

// succeed begins a guard for the present version of a Receiver. If events were delayed before the change, they trigger, but for those of an
// earlier object of its name, which may have been another tenant's (invariant E1).
func (w *watch) succeed(id subscriber, s *Subscription, now time.Time) {
	before := w.guards[id]
	g := newGuard(s)
	g.last = now
	w.guards[id] = g
	if before == nil || before.stop == nil && !before.held {
		return
	}
	w.report(id, g)
	if !s.Suspended && before.uid == s.UID {
		w.resume(s, now)
	}
}

// resume triggers for the events that were held back.
func (w *watch) resume(s *Subscription, now time.Time) {
	w.counters[eventResumed].Inc()
	w.trigger(s, now)
}

func idOf(t event.Trigger) triggerID { return triggerID{t.Namespace, t.Receiver, t.Key} }

func (w *watch) trigger(s *Subscription, now time.Time) {
	for _, t := range s.Targets {
		t.Accepted = now
		w.triggers[idOf(t)] = t
	}
}

func (w *watch) report(id subscriber, g *guard) {
	value, err := json.Marshal(g.report())
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	w.reports[id] = value
}

// keepTime ends pauses and removes ended guards, until ctx ends.
func (w *watch) keepTime(ctx context.Context) {
	for fair.Sleep(ctx, clockTick) == nil {
		if err := w.passTime(ctx); err != nil && ctx.Err() == nil && event.Owned(ctx) {
			w.Log.Warn("what was held back is not triggered yet, it will be tried again", "error", err)
		}
	}
}

func (w *watch) passTime(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for id, g := range w.guards {
		s, exists := w.Subscriptions.get(id)
		switch {
		case !exists:
			if g.stop != nil || g.held {
				w.reports[id] = nil
			}
			delete(w.guards, id)
			continue
		case !g.of(s):
			w.succeed(id, s, now)
			continue
		}
		triggers, over := g.due(now)
		if triggers {
			w.resume(s, now)
		}
		if over {
			w.report(id, g)
		}
		if g.forgettable(now) {
			delete(w.guards, id)
		}
	}
	w.takeUpHeld()
	if err := w.flush(ctx); err != nil {
		return err
	}
	w.released()
	return nil
}

// errTermOver reports that another replica may be the worker, whose reports must not be replaced: see Loop.
var errTermOver = errors.New("the term is over")

// flush publishes triggers, and then reports; those that fail may be tried again. A report that nothing is held back follows the triggers for
// what was: the next worker continues from it. The caller has the lock.
func (w *watch) flush(ctx context.Context) error {
	switch {
	case len(w.triggers) == 0 && len(w.reports) == 0:
		return nil
	case !event.Owned(ctx):
		return errTermOver
	}
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	for some := range slices.Chunk(interleaved(w.triggers), w.together) {
		if err := w.publish(ctx, some); err != nil {
			w.together = max(w.together/2, 1)
			return err
		}
		w.together = min(2*w.together, mostTogether)
	}
	var errs []error
	for id, value := range w.reports {
		if err := w.Reports.Put(ctx, LoopPrefix+id.namespace+"/"+id.name, value); err != nil {
			errs = append(errs, fmt.Errorf("report loop: %w", err))
			continue
		}
		delete(w.reports, id)
	}
	return errors.Join(errs...)
}
