package apply

import (
	"context"
	"time"

	"notifier/internal/event"
)

// item is an object of a namespace, or with a key a trigger. Work on it is a request for the object, or the resolution of the trigger's
// target.
type item struct {
	namespace string
	key       string
	object    object
}

// object names an object within a namespace, for any version of its API.
type object struct{ group, kind, name string }

// parts returns the namespace, whose turn an item waits for, and the object or trigger that the item is about.
func (it item) parts() (namespace, name string) {
	if it.key != "" {
		return it.namespace, "trigger " + it.key
	}
	return it.namespace, it.object.kind + "/" + it.object.name
}

// job is the newest trigger of a key with its remaining work. The term's lock protects it.
type job struct {
	key item
	// held is the message that was delivered last. It is the key's message on disk: the bus keeps only that one.
	held event.Message[event.Trigger]
	// trigger is the trigger that was accepted last. It may have been delivered before held.
	trigger *event.Trigger
	// taken is when held was taken in, by this replica's clock.
	taken time.Time
	// stale reports that the target must be resolved (again), expanding that this is under way. expanded is when it last began.
	stale     bool
	expanding bool
	expanded  time.Time
	// pause is the pause after the last failure to resolve the target. refused is the time of the first of the present refusals, zero for none.
	pause   time.Duration
	refused time.Time
	// pending are the objects that need a request.
	pending map[item]*attempt
	// result is the label under which the trigger is counted when nothing is pending.
	result string
}

// metBy reports whether a request is late enough for the job: its trigger coalesced webhooks until it was taken, by this replica's clock.
func (j *job) metBy(o outcome) bool {
	return !o.stamp.Before(j.trigger.Accepted) && !o.began.Before(j.expanded)
}

// Pauses between attempts.
const (
	minRefusedPause = 5 * time.Second
	minFailedPause  = time.Second
	minUnseenPause  = 250 * time.Millisecond
	maxPause        = time.Minute
	// refusedFor is how long a request is retried that nothing but refusals answers. The webhook may be older: after an outage the API server may
	// refuse what it permits when it has read its Roles.
	refusedFor = 10 * time.Minute
	// unseenFor is how long a trigger is tried after it was taken in while its Receiver, or its target, is not known here. The replica that
	// accepted the webhook may have seen them earlier, and its clock may differ. A broken watch recovers within that time: client-go notices a
	// connection that is gone without a word after 45 s.
	unseenFor = time.Minute
)

// longer returns the pause that follows a pause of p.
func longer(p, least time.Duration) time.Duration {
	return min(max(2*p, least), maxPause)
}

// retried notes a refusal and reports whether there is another try after a pause. since is the time of the first of the present refusals.
func retried(since *time.Time, pause time.Duration) bool {
	if since.IsZero() {
		*since = time.Now()
	}
	return time.Since(*since)+pause <= refusedFor
}

// offer takes in a trigger, and returns the message that needs no more work because of it, nil for none.
//
// Every trigger has its target resolved once more, and so gets a request of its own. This is so even if it was accepted before the
// trigger at work: webhooks that were accepted later may have been coalesced into it by now.
func (t *term) offer(held event.Message[event.Trigger]) (done *event.Message[event.Trigger]) {
	trigger := &held.Value
	t.mu.Lock()
	defer t.mu.Unlock()
	key := item{namespace: trigger.Namespace, key: trigger.Key}
	j := t.jobs[key]
	switch {
	case j == nil:
		j = &job{key: key, pending: map[item]*attempt{}}
		t.jobs[key] = j
		t.metrics.pending.Inc()
	case !redelivered(*trigger, j.held.Value):
		// An ack of a message's first delivery would also end its redelivery, so a first delivery is only released.
		j.held.Take()
		t.metrics.triggers.WithLabelValues(resultFolded).Inc()
		before := j.held
		done = &before
	}
	if !j.stale || j.pause > 0 { // otherwise it is due within the interval already
		t.queue.EnqueueAfter(key, time.Until(j.expanded.Add(t.opts.Interval)))
	}
	if j.trigger == nil || !trigger.Accepted.Before(j.trigger.Accepted) {
		j.trigger = trigger
	}
	j.held, j.taken, j.stale, j.pause, j.refused, j.result = held, time.Now(), true, 0, time.Time{}, resultApplied
	return done
}

func redelivered(a, b event.Trigger) bool {
	return a.Accepted.Equal(b.Accepted) && a.ReceiverUID == b.ReceiverUID
}

// expand resolves a job's target into the objects that need a request. It does so at most once an interval for any number of triggers,
// and ends the pauses of claims that failed.
func (t *term) expand(ctx context.Context, it item) {
	j, trigger, taken := t.beginExpanding(it)
	if j == nil {
		return
	}
	receiver, target, why := t.resolve(trigger, "")
	if t.unseen(trigger, why, taken) {
		why = resultUnseen
	} else {
		t.mend(trigger, receiver, trigger.Target.Name)
	}
	var names []string
	switch why {
	case "":
		target, names, why = t.objects(ctx, receiver, target)
	case resultRefused:
		t.refusals.deny(receiver, denial(receiver, target, errNotWatched))
	}
	t.confirm(ctx, t.endExpanding(j, target, names, why))
}

// beginExpanding returns the job whose target must be resolved, and the trigger to resolve it for, with the time at which it was taken in. Both
// are nil if there is none.
func (t *term) beginExpanding(it item) (_ *job, trigger *event.Trigger, taken time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := t.jobs[it]
	if j == nil || !j.stale {
		return nil, nil, time.Time{}
	}
	if t.claims[it.namespace] >= maxClaims {
		t.queue.EnqueueAfter(it, busyPause())
		return nil, nil, time.Time{}
	}
	j.held.Take() // from now on a webhook needs a request later than the next ones
	j.stale, j.expanding, j.expanded = false, true, time.Now()
	return j, j.trigger, j.taken
}

// endExpanding claims the objects that a job's target means, or applies the reason why there are none.
func (t *term) endExpanding(j *job, target event.Target, names []string, why string) (done *event.Message[event.Trigger]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	j.expanding = false
	switch why {
	case "":
		j.result = resultApplied
		for k, at := range j.pending {
			if at.pause > 0 {
				at.notBefore, at.pause, at.refused = time.Now(), 0, time.Time{}
				t.slots[k].moved(at)
				t.wake(k)
			}
		}
		for _, name := range names {
			t.claim(j, item{namespace: j.key.namespace, object: object{groupOf(target.APIVersion), target.Kind, name}})
		}
	case resultRefused:
		if retried(&j.refused, longer(j.pause, minRefusedPause)) {
			t.postpone(j, minRefusedPause)
		} else {
			j.result = resultRefused
		}
	case resultUnknown:
		j.refused = time.Time{}
		t.postpone(j, minFailedPause)
	case resultBusy:
		t.postpone(j, busyPause())
	case resultUnseen:
		t.postpone(j, minUnseenPause)
	default:
		j.result = why
		t.line(j.key.namespace).Info("trigger ended", "receiver", j.trigger.Receiver, "kind", j.trigger.Target.Kind,
			"name", j.trigger.Target.Name, "result", why)
	}
	return t.finish(j)
}

// claim adds an object to the job's objects that need a request. The caller holds the lock.
func (t *term) claim(j *job, k item) {
	if j.pending[k] != nil {
		return
	}
	at := &attempt{job: j, notBefore: time.Now()}
	j.pending[k] = at
	t.claims[k.namespace]++
	s := t.slots[k]
	if s == nil {
		s = &slot{last: t.began} // the previous worker may have written until then
		t.slots[k] = s
	}
	s.wait(at)
	t.wake(k)
}

// postpone schedules another resolution of a target without a resolved object. The caller holds the lock.
func (t *term) postpone(j *job, least time.Duration) {
	j.pause, j.stale = longer(j.pause, least), true
	t.queue.EnqueueAfter(j.key, j.pause)
}

// finish ends the job if no work is left, and returns its message to confirm, else nil. The caller holds the lock.
func (t *term) finish(j *job) (done *event.Message[event.Trigger]) {
	if len(j.pending) > 0 || j.stale || j.expanding {
		return nil
	}
	delete(t.jobs, j.key)
	t.metrics.pending.Dec()
	t.metrics.triggers.WithLabelValues(j.result).Inc()
	return &j.held
}

// confirm acknowledges a message, if it is not nil. It must not be called under the lock. If the bus does not confirm the ack, it delivers the
// message again, which costs one needless request.
func (a *Applier) confirm(ctx context.Context, done *event.Message[event.Trigger]) {
	if done == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	if err := done.Ack(ctx); err != nil {
		a.line(done.Value.Namespace).Warn("end of a trigger not confirmed, it may be applied again", "error", err)
	}
}
