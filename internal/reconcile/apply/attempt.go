package apply

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// requestTimeout bounds one request for a reconcile.
const requestTimeout = 10 * time.Second

// errNotOwned reports that another replica may write by now: a second request would exceed the one per interval.
var errNotOwned = errors.New("another replica may be the worker")

// wake enqueues an object for the time when its slot and one of its claims are due. The caller holds the lock.
func (t *term) wake(k item) {
	s := t.slots[k]
	at := s.last.Add(t.opts.Interval)
	if len(s.waiting) > 0 {
		if next := s.waiting[0].due(); next.After(at) {
			at = next
		}
	}
	t.queue.EnqueueAfter(k, time.Until(at))
}

// take returns the claim to an object whose turn it is. It forgets an object without claims when the object's interval is over.
func (t *term) take(k item) *attempt {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.slots[k]
	if s == nil {
		return nil
	}
	now := time.Now()
	if now.Before(s.last.Add(t.opts.Interval)) {
		t.wake(k)
		return nil
	}
	if len(s.waiting) == 0 {
		delete(t.slots, k)
		return nil
	}
	at := s.waiting[0]
	if at.due().After(now) {
		t.wake(k)
		return nil
	}
	return at
}

// outcome is the result of an attempt.
type outcome struct {
	verdict verdict
	after   time.Duration
	err     error
	// sent reports that a request was sent, began is when, and stamp its time stamp, which may be later.
	sent     bool
	began    time.Time
	stamp    time.Time
	receiver Receiver
	resource string
	// ended, if not empty, is the reason why there was nothing to send, which was looked for from began on.
	ended string
}

// attempt sends the request that is due for an object, if any.
func (t *term) attempt(ctx context.Context, k item) {
	if t.take(k) == nil {
		return
	}
	if err := t.limiter.Wait(ctx); err != nil {
		return // the work ends; the kept messages go back to the bus
	}
	at := t.take(k) // the wait may have been long
	if at == nil {
		return
	}
	for _, done := range t.settled(k, at, t.send(ctx, k, at)) {
		t.confirm(ctx, done)
	}
}

// settled applies the consequences of an attempt, and returns the messages to confirm.
func (t *term) settled(k item, at *attempt, o outcome) []*event.Message[event.Trigger] {
	done, others := func() (*event.Message[event.Trigger], []sharing) {
		t.mu.Lock()
		defer t.mu.Unlock()
		done, met := t.conclude(k, at, o)
		if !met {
			return done, nil
		}
		return done, t.others(k, o)
	}()
	return append(t.share(k, others, o), done)
}

// send resolves the claim once more, right before the write, and writes it.
func (t *term) send(ctx context.Context, k item, at *attempt) outcome {
	began := time.Now()
	t.mu.Lock()
	trigger, before, refusedAs := at.job.trigger, t.slots[k].stamp, at.refusedAs
	t.mu.Unlock()
	receiver, target, why := t.resolve(trigger, refusedAs)
	t.mend(trigger, receiver, k.object.name)
	switch why {
	case "":
	case resultRefused:
		return outcome{verdict: refused, err: errNotWatched, receiver: receiver, resource: target.Kind}
	case resultUnknown:
		return outcome{verdict: failed, err: errPending, receiver: receiver, resource: target.Kind}
	case resultBusy:
		return outcome{verdict: failed, err: errBusy, after: busyPause()}
	default:
		return outcome{ended: why, began: began}
	}
	resource, err := t.opts.Catalogue.Resource(ctx, k.namespace, target.APIVersion, target.Kind)
	if err == nil && resource.Group != k.object.group {
		err = kube.ErrNotServed // another group serves the kind since the object was claimed
	}
	if err != nil {
		v := failed
		if kube.IsUnresolvable(err) {
			v = refused
		}
		return outcome{verdict: v, err: err, receiver: receiver, resource: target.Kind}
	}
	if !t.owned() {
		return outcome{verdict: failed, err: errNotOwned, receiver: receiver} // only until the term ends, in a moment
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	result := outcome{sent: true, receiver: receiver, resource: resource.GroupResource().String(), began: time.Now()}
	result.stamp = result.began
	if result.stamp.Before(trigger.Accepted) { // accepted by another replica, whose clock is ahead
		result.stamp = trigger.Accepted
	}
	if !result.stamp.After(before) { // else the request would change nothing
		result.stamp = before.Add(time.Nanosecond)
	}
	result.err = t.opts.Client.write(ctx, request{
		resource: resource, namespace: k.namespace, name: k.object.name, account: receiver.ServiceAccount, stamp: result.stamp,
	})
	result.verdict, result.after = judge(result.err)
	t.metrics.patches.WithLabelValues(patchResults[result.verdict]).Inc()
	if result.verdict == gone || errors.Is(result.err, errUnserved) {
		t.opts.Catalogue.Doubt(k.namespace)
	}
	return result
}

// conclude applies the consequences of an attempt to its claim, and reports whether the request may also meet other claims to the
// object. It returns the message to confirm, if the trigger is done. The caller holds the lock.
func (t *term) conclude(k item, at *attempt, o outcome) (done *event.Message[event.Trigger], met bool) {
	j, s := at.job, t.slots[k]
	if o.sent {
		s.last, s.stamp = time.Now(), o.stamp
	}
	s.leave(at)
	end := true
	switch {
	case o.began.Before(j.expanded) && (o.ended != "" || o.verdict == gone): // it says nothing about a webhook that came in meanwhile
		at.notBefore, end = time.Now(), false
	case o.ended != "":
		j.result = o.ended
	case o.verdict == applied:
		met = true
		t.refusals.allow(k.namespace, o.receiver.ServiceAccount, map[string]bool{o.receiver.Name: true}, o.resource, k.object)
		if end = j.metBy(o); end {
			t.metrics.latency.Observe(time.Since(j.trigger.Accepted).Seconds())
		} else { // a newer trigger was delivered meanwhile
			at.notBefore = time.Now()
		}
	case o.verdict == gone:
		j.result = resultNotFound
		t.refusals.removed(o.receiver, k.object.kind, k.object.name) // the account may write it
	case o.verdict == refused:
		end = t.refusedAgain(k, at, o)
	default:
		at.pause = longer(at.pause, minFailedPause)
		if o.verdict == conflicted {
			at.pause = 0 // the slot's interval is pause enough
		}
		at.notBefore, at.refused = time.Now().Add(at.pause), time.Time{}
		end = false
	}
	if o.after > 0 {
		at.floor = time.Now().Add(min(o.after, maxPause))
	}
	t.logAttempt(k, o, end)
	if end {
		t.drop(j, k)
	} else {
		s.wait(at) // behind the other claims to the object
	}
	t.wake(k)
	return t.finish(j), met
}

// refusedAgain shows a refusal on the Receiver, and reports whether it was the last.
func (t *term) refusedAgain(k item, at *attempt, o outcome) (last bool) {
	d := Denied{
		ServiceAccount: o.receiver.ServiceAccount, Resource: o.resource, Kind: k.object.kind, Object: k.object.name,
		Message: o.err.Error(), // the API server's words about the tenant's own object
	}
	switch {
	case kube.IsUnresolvable(o.err):
		d = denial(o.receiver, event.Target{Kind: k.object.kind, Name: k.object.name}, o.err)
	case apierrors.IsForbidden(o.err):
		d.Reason = v1.ForbiddenReason
		t.reviews.changed(k.namespace, o.receiver.Name) // the review distinguishes a missing permission from a fault that others must correct
	}
	t.refusals.deny(o.receiver, d)
	at.pause = longer(at.pause, minRefusedPause)
	at.notBefore, at.refusedAs = time.Now().Add(at.pause), o.receiver.ServiceAccount
	if !retried(&at.refused, at.pause) {
		at.job.result = resultRefused
		return true
	}
	return false
}

func (t *term) logAttempt(k item, o outcome, end bool) {
	log := t.line(k.namespace).With("kind", k.object.kind, "name", k.object.name)
	switch {
	case o.ended != "" && !end:
		log.Info("trigger is tried again, a webhook came in meanwhile", "result", o.ended)
	case o.ended != "":
		log.Info("trigger ended", "result", o.ended)
	case o.verdict == applied:
		log.Info("reconcile requested", "receiver", o.receiver.Name, "serviceAccount", o.receiver.ServiceAccount)
	case o.verdict == failed, o.verdict == conflicted:
		log.Warn("reconcile request failed, it will be tried again", "receiver", o.receiver.Name, "error", o.err)
	default:
		log.Warn("reconcile request refused", "receiver", o.receiver.Name, "serviceAccount", o.receiver.ServiceAccount,
			"resource", o.resource, "result", patchResults[o.verdict], "final", end, "reason", safeReason(o.err.Error()))
	}
}
