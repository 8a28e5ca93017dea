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
var errNotOwned = errors.New("another replica may own the shard")

// wake enqueues an object for the time when its slot and one of its claims are due. The caller holds the lock.
func (a *Applier) wake(k slotKey) {
	s := a.slots[k]
	at := s.last.Add(a.opts.Interval)
	if len(s.waiting) > 0 {
		if next := s.waiting[0].due(); next.After(at) {
			at = next
		}
	}
	a.queue.EnqueueAfter(item{namespace: k.namespace, object: k.object}, time.Until(at))
}

// take returns the claim to an object whose turn it is, and with start marks it as in flight. It forgets an object without claims when
// the object's interval is over.
func (a *Applier) take(k slotKey, start bool) *attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.slots[k]
	if s == nil {
		return nil
	}
	now := time.Now()
	if now.Before(s.last.Add(a.opts.Interval)) {
		a.wake(k)
		return nil
	}
	if len(s.waiting) == 0 {
		delete(a.slots, k)
		return nil
	}
	at := s.waiting[0]
	if at.due().After(now) {
		a.wake(k)
		return nil
	}
	at.inFlight = start
	return at
}

// outcome is the result of an attempt.
type outcome struct {
	verdict verdict
	after   time.Duration
	err     error
	// sent reports that a request was sent, with the time stamp.
	sent     bool
	stamp    time.Time
	receiver Receiver
	resource string
	// ended, if not empty, is the reason why there was nothing to send.
	ended string
}

// attempt sends the request that is due for an object, if any.
func (a *Applier) attempt(ctx context.Context, k slotKey) {
	if a.take(k, false) == nil {
		return
	}
	if err := a.limiter.Wait(ctx); err != nil {
		return // the work ends; the kept messages go back to the bus
	}
	at := a.take(k, true) // the wait may have been long
	if at == nil {
		return
	}
	for _, settle := range a.settled(k, at, a.send(ctx, k, at)) {
		settle(ctx)
	}
}

// settled applies the consequences of an attempt.
func (a *Applier) settled(k slotKey, at *attempt, o outcome) []settle {
	end, others := func() (settle, []sharing) {
		a.mu.Lock()
		defer a.mu.Unlock()
		end, met := a.conclude(k, at, o)
		if !met {
			return end, nil
		}
		return end, a.others(k, o)
	}()
	return append(a.share(k, others, o), end)
}

// send resolves the claim once more, right before the write, and writes it.
func (a *Applier) send(ctx context.Context, k slotKey, at *attempt) outcome {
	a.mu.Lock()
	trigger := at.job.trigger
	a.mu.Unlock()
	receiver, target, why := a.resolve(trigger)
	a.mend(trigger, receiver, k.object.name)
	switch why {
	case "":
	case resultRefused:
		return outcome{verdict: refused, err: errNotWatched, receiver: receiver, resource: target.Kind}
	case resultUnknown:
		return outcome{verdict: failed, err: errPending, receiver: receiver, resource: target.Kind}
	case resultBusy:
		return outcome{verdict: failed, err: errBusy, after: searchPause()}
	default:
		return outcome{ended: why}
	}
	resource, err := a.opts.Catalogue.Resource(ctx, k.namespace, target.APIVersion, target.Kind)
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
	if !at.job.shard.owned() {
		return outcome{verdict: failed, err: errNotOwned, receiver: receiver} // only until the shard is drained, in a moment
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	result := outcome{sent: true, receiver: receiver, resource: resource.GroupResource().String(), stamp: time.Now()}
	if result.stamp.Before(trigger.Accepted) { // accepted by another replica, whose clock is ahead
		result.stamp = trigger.Accepted
	}
	result.err = a.opts.Client.write(ctx, request{
		resource: resource, namespace: k.namespace, name: k.object.name, account: receiver.ServiceAccount, stamp: result.stamp,
	})
	result.verdict, result.after = judge(result.err)
	a.metrics.patches.WithLabelValues(patchResults[result.verdict]).Inc()
	if result.verdict == gone {
		a.opts.Catalogue.Doubt(k.namespace)
	}
	return result
}

// conclude applies the consequences of an attempt to its claim, and reports whether the request may also meet other claims to the
// object. The caller holds the lock, and calls the returned settle after releasing it.
func (a *Applier) conclude(k slotKey, at *attempt, o outcome) (settle settle, met bool) {
	j, s := at.job, a.slots[k]
	at.inFlight = false
	if o.sent {
		s.last = time.Now()
	}
	if a.jobs[j.key] != j || j.pending[k] != at {
		a.wake(k)
		return func(context.Context) {}, false // the shard gave up on it
	}
	s.leave(at)
	end := true
	switch {
	case o.ended != "":
		j.result = o.ended
	case o.verdict == applied:
		met = true
		a.refusals.allow(k.namespace, o.receiver.ServiceAccount, map[string]bool{o.receiver.Name: true}, o.resource, k.object)
		if end = j.metBy(o.stamp); end {
			a.metrics.latency.Observe(time.Since(j.trigger.Accepted).Seconds())
		} else { // a newer trigger was delivered meanwhile
			at.notBefore = time.Now()
		}
	case o.verdict == gone:
		j.result = resultNotFound
	case o.verdict == refused:
		end = a.refusedAgain(k, at, o)
	default:
		at.pause = longer(at.pause, minFailedPause)
		if o.verdict == conflicted {
			at.pause = 0 // the slot's interval is pause enough
		}
		at.notBefore = time.Now().Add(at.pause)
		end = false
	}
	if o.after > 0 {
		at.floor = time.Now().Add(min(o.after, maxPause))
	}
	a.logAttempt(k, o, end)
	switch {
	case end:
		a.drop(j, k)
	case j.shard.closed:
		a.drop(j, k)
		j.partial = true
	default:
		s.wait(at) // behind the other claims to the object
	}
	a.wake(k)
	return a.finish(j), met
}

// refusedAgain shows a refusal on the Receiver, and reports whether it was the last.
func (a *Applier) refusedAgain(k slotKey, at *attempt, o outcome) (last bool) {
	d := Denied{
		ServiceAccount: o.receiver.ServiceAccount, Resource: o.resource, Kind: k.object.kind, Object: k.object.name,
		Message: o.err.Error(), // the API server's words about the tenant's own object
	}
	switch {
	case kube.IsUnresolvable(o.err):
		d = denial(o.receiver, event.Target{Kind: k.object.kind, Name: k.object.name}, o.err)
	case apierrors.IsForbidden(o.err):
		d.Reason = v1.ForbiddenReason
		a.reviews.changed(k.namespace, o.receiver.Name) // the review distinguishes a missing permission from a fault that others must correct
	}
	a.refusals.deny(o.receiver, d)
	at.pause = longer(at.pause, minRefusedPause)
	at.notBefore = time.Now().Add(at.pause)
	if at.notBefore.After(at.job.trigger.Accepted.Add(refusedFor)) {
		at.job.result = resultRefused
		return true
	}
	return false
}

func (a *Applier) logAttempt(k slotKey, o outcome, end bool) {
	log := a.line(k.namespace).With("kind", k.object.kind, "name", k.object.name)
	switch {
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
