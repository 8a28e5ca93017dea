package apply

import (
	"context"
	"time"

	"notifier/internal/event"
)

// jobKey is a trigger's namespace and key; slotKey an object's namespace and name.
type (
	jobKey  struct{ namespace, key string }
	slotKey struct {
		namespace string
		object    object
	}
)

// item is work on one object, or with a job the resolution of that job's target.
type item struct {
	namespace string
	job       string
	object    object
}

// object names an object within a namespace, for any version of its API.
type object struct{ group, kind, name string }

// parts returns the namespace, whose turn an item waits for, and the object or trigger that the item is about.
func (it item) parts() (namespace, name string) {
	if it.job != "" {
		return it.namespace, "trigger " + it.job
	}
	return it.namespace, it.object.kind + "/" + it.object.name
}

// job is the newest trigger of a key with its remaining work. The Applier's lock protects it.
type job struct {
	key   jobKey
	shard *shard
	// held is the message that was delivered last. It is the key's message on disk: the bus keeps only that one.
	held event.Message[event.Trigger]
	// trigger is the trigger that was accepted last. It may have been delivered before held.
	trigger *indexedTrigger
	// stale reports that the target must be resolved (again), expanding that this is under way. expanded is when it last began.
	stale     bool
	expanding bool
	// waits reports that the job waits for room for its claims.
	waits    bool
	expanded time.Time
	// pause is the pause after the last refusal to resolve the target.
	pause time.Duration
	// pending are the objects that need a request.
	pending map[slotKey]*attempt
	// result is the label under which the trigger is counted when nothing is pending.
	result string
	// partial reports that claims were removed when the shard was closed, so that the trigger goes back to the bus.
	partial bool
}

// metBy reports whether a request of that stamp is late enough for the job: its trigger coalesced webhooks until it was taken.
func (j *job) metBy(stamp time.Time) bool {
	return !stamp.Before(j.trigger.Accepted) && !stamp.Before(j.expanded)
}

// Pauses between attempts.
const (
	minRefusedPause = 5 * time.Second
	minFailedPause  = time.Second
	minUnseenPause  = 250 * time.Millisecond
	maxPause        = time.Minute
	// refusedFor is how long a refused request is retried.
	refusedFor = 10 * time.Minute
	// unseenFor is how long after its acceptance a trigger is tried while its Receiver, or its target, is not known here. The replica that
	// accepted the webhook may have seen them earlier. A broken watch recovers within that time.
	unseenFor = 30 * time.Second
)

// longer returns the pause that follows a pause of p.
func longer(p, least time.Duration) time.Duration {
	return min(max(2*p, least), maxPause)
}

// offer takes in a trigger, and returns the message that needs no more work because of it, nil for none. It reports false for a trigger to
// give back.
//
// Every trigger has its target resolved once more, and so gets a request of its own. This is so even if it was accepted before the
// trigger at work: webhooks that were accepted later may have been coalesced into it by now.
func (a *Applier) offer(sh *shard, held event.Message[event.Trigger]) (done *event.Message[event.Trigger], taken bool) {
	t, indexed := held.Value, indexTrigger(held.Value)
	a.mu.Lock()
	defer a.mu.Unlock()
	key := jobKey{t.Namespace, t.Key}
	j := a.jobs[key]
	switch {
	case sh.closed, j != nil && j.shard != sh: // while a shard changes owner the bus delivers a message twice: the second shard refuses it
		return nil, false
	case j == nil:
		j = &job{key: key, shard: sh, pending: map[slotKey]*attempt{}}
		a.jobs[key], sh.jobs[key] = j, j
		sh.namespaces[t.Namespace] = true
		a.metrics.pending.Inc()
	case !redelivered(t, j.held.Value):
		// An ack of a message's first delivery would also end its redelivery, so a first delivery is only released.
		j.held.Take()
		a.metrics.triggers.WithLabelValues(resultFolded).Inc()
		before := j.held
		done = &before
	}
	if !j.stale || j.pause > 0 { // otherwise it is due within the interval already
		a.queue.EnqueueAfter(item{namespace: key.namespace, job: key.key}, time.Until(j.expanded.Add(a.opts.Interval)))
	}
	if j.trigger == nil || !t.Accepted.Before(j.trigger.Accepted) {
		j.trigger = indexed
	}
	j.held, j.stale, j.pause, j.result = held, true, 0, resultApplied
	return done, true
}

func redelivered(a, b event.Trigger) bool {
	return a.Accepted.Equal(b.Accepted) && a.ReceiverUID == b.ReceiverUID
}

// expand resolves a job's target into the objects that need a request. It does so at most once an interval for any number of triggers,
// and ends the pauses of claims that failed.
func (a *Applier) expand(ctx context.Context, it item) {
	j, trigger := a.beginExpanding(it)
	if j == nil {
		return
	}
	receiver, target, why := a.resolve(trigger)
	if a.unseen(trigger, why) {
		why = resultUnseen
	} else {
		a.mend(trigger, receiver, trigger.Target.Name)
	}
	var names []string
	switch why {
	case "":
		target, names, why = a.objects(ctx, receiver, target)
	case resultRefused:
		a.refusals.deny(receiver, denial(receiver, target, errNotWatched))
	}
	a.endExpanding(j, target, names, why)(ctx)
}

// beginExpanding returns the job whose target must be resolved, and the trigger to resolve it for. Both are nil if there is none.
func (a *Applier) beginExpanding(it item) (*job, *indexedTrigger) {
	a.mu.Lock()
	defer a.mu.Unlock()
	j := a.jobs[jobKey{it.namespace, it.job}]
	if j == nil || !j.stale {
		a.useRoom(it.namespace) // it may have been woken for room that it does not need
		return nil, nil
	}
	if !a.hasRoom(j) {
		return nil, nil
	}
	j.held.Take() // from now on a webhook needs a request later than the next ones
	j.stale, j.expanding, j.expanded = false, true, time.Now()
	return j, j.trigger
}

// endExpanding claims the objects that a job's target means, or applies the reason why there are none.
func (a *Applier) endExpanding(j *job, target event.Target, names []string, why string) settle {
	a.mu.Lock()
	defer a.mu.Unlock()
	j.expanding = false
	switch why {
	case "":
		j.result = resultApplied
		for k, at := range j.pending {
			if at.pause > 0 {
				at.notBefore, at.pause = time.Now(), 0
				a.slots[k].moved(at)
				a.wake(k)
			}
		}
		for _, name := range names {
			a.claim(j, slotKey{j.key.namespace, object{groupOf(target.APIVersion), target.Kind, name}})
		}
	case resultRefused:
		a.postpone(j, minRefusedPause, j.trigger.Accepted.Add(refusedFor))
	case resultUnknown:
		a.postpone(j, minFailedPause, time.Time{})
	case resultBusy:
		a.postpone(j, searchPause(), time.Time{})
	case resultUnseen:
		a.postpone(j, minUnseenPause, time.Time{})
	default:
		j.result = why
		a.line(j.key.namespace).Info("trigger ended", "receiver", j.trigger.Receiver, "kind", j.trigger.Target.Kind,
			"name", j.trigger.Target.Name, "result", why)
	}
	a.useRoom(j.key.namespace)
	return a.finish(j)
}

// claim adds an object to the job's objects that need a request. The caller holds the lock.
func (a *Applier) claim(j *job, k slotKey) {
	if j.shard.closed {
		j.partial = true
		return
	}
	if j.pending[k] != nil {
		return
	}
	at := &attempt{job: j, notBefore: time.Now()}
	j.pending[k] = at
	a.claimsOf(k.namespace).count++
	s := a.slots[k]
	if s == nil {
		s = &slot{}
		a.slots[k] = s
	}
	if s.last.Before(j.shard.began) { // the previous owner may have written until then
		s.last = j.shard.began
	}
	s.wait(at)
	a.wake(k)
}

// postpone schedules another resolution of a target without a resolved object, until end unless end is zero. The caller holds the lock.
func (a *Applier) postpone(j *job, least time.Duration, end time.Time) {
	if j.shard.closed {
		j.partial = true
		return
	}
	j.pause = longer(j.pause, least)
	if !end.IsZero() && time.Now().Add(j.pause).After(end) {
		j.result = resultRefused
		return
	}
	j.stale = true
	a.queue.EnqueueAfter(item{namespace: j.key.namespace, job: j.key.key}, j.pause)
}

// settle reports the end of a message to the bus. It must not be called under the lock.
type settle func(context.Context)

// finish ends the job if no work is left. The caller holds the lock.
func (a *Applier) finish(j *job) settle {
	if len(j.pending) > 0 || j.stale || j.expanding || a.jobs[j.key] != j {
		return func(context.Context) {}
	}
	a.forget(j)
	held, result := j.held, j.result
	if j.partial {
		result = resultReturned
	}
	a.metrics.triggers.WithLabelValues(result).Inc()
	return func(ctx context.Context) {
		if result == resultReturned {
			a.giveBack(held)
			return
		}
		a.confirm(ctx, held)
	}
}

// forget removes the job. The caller holds the lock.
func (a *Applier) forget(j *job) {
	delete(a.jobs, j.key)
	delete(j.shard.jobs, j.key)
	a.metrics.pending.Dec()
	if j.shard.closed && len(j.shard.jobs) == 0 {
		close(j.shard.empty)
	}
}

func (a *Applier) giveBack(held event.Message[event.Trigger]) {
	if err := held.Nak(); err != nil {
		a.line(held.Value.Namespace).Warn("trigger not given back, the bus will hand it out again by itself", "error", err)
	}
}

// confirm acknowledges a message. If the bus does not confirm the ack, it delivers the message again, which costs one needless request.
func (a *Applier) confirm(ctx context.Context, held event.Message[event.Trigger]) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := held.Ack(ctx); err != nil {
		a.line(held.Value.Namespace).Warn("end of a trigger not confirmed, it may be applied again", "error", err)
	}
}
