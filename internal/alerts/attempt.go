package alerts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

const (
	// busTimeout bounds one call of the bus.
	busTimeout = 2 * time.Second
	// A failed call of the bus is tried again after busGap, doubling up to maxBusGap.
	busGap    = 200 * time.Millisecond
	maxBusGap = 2 * time.Second
	// askAgain is the pause before a delivery is tried again if the history could not be read.
	askAgain = time.Second
)

// action is the next step for a delivery.
type action int

const (
	nak           action = iota // back to the bus, outcome unknown
	record                      // sent
	toDeadLetters               // to the dead letters
	reschedule                  // to the schedule
	drop                        // needs nothing any more
	again                       // stays in memory
)

// verdict is the decision about a delivery after an attempt, or without one.
type verdict struct {
	action action
	// at is when a rescheduled delivery is handed out, or a delivery that stays in memory is tried again.
	at time.Time
	// label and reason give the cause.
	label, reason string
	// outcome is the word for the metrics, empty for a dead letter and for a delivery that is put back without an attempt.
	outcome string
	// began and took are the attempt's start and duration, and failure is its error, nil for a success. All are zero if nothing was sent, or
	// if the drain cut the send off.
	began   time.Time
	took    time.Duration
	failure *event.Error
}

// errPanic marks a Sender that panicked.
var errPanic = errors.New("sender panicked")

// try sends a delivery unless it was sent before. Until it returns, the item's delivery belongs to it.
func (s *shard) try(work context.Context, it *item, dest *Destination) verdict {
	d := &it.d
	if !dest.takes(notification(d)) { // the router did not know the Provider, or it had another type
		return verdict{action: drop, outcome: outcomeSkipped}
	}
	if !it.entry.unsent && !it.fresh() {
		switch sent, err := s.wasSent(work, d); {
		case err != nil:
			s.metrics.busErrors.Inc()
			s.log.Debug("history not read", "namespace", d.Namespace, "error", err)
			return verdict{action: again, at: time.Now().Add(askAgain)}
		case sent:
			return verdict{action: drop, outcome: outcomeKnown}
		}
	}
	if !event.Owned(work) {
		return verdict{action: nak} // the new owner of the shard sends it
	}
	started := time.Now()
	err := s.send(work, d, dest)
	now := time.Now()
	took := now.Sub(started)
	s.metrics.sends.WithLabelValues(s.metrics.typeOf(dest)).Observe(took.Seconds())
	if err == nil {
		return verdict{action: record, outcome: outcomeSent, label: labelNone, began: started, took: took}
	}
	if work.Err() != nil || !event.Owned(work) {
		return verdict{action: nak}
	}
	failure := event.AsError(err)
	it.mu.Lock() // a copy may be made for the schedule
	defer it.mu.Unlock()
	if d.FirstAttempt.IsZero() {
		d.FirstAttempt = started
	}
	if is := s.Destinations.Get(d.Namespace, d.Provider); is != nil && is.Version != dest.Version && now.Before(s.expiry(d)) {
		return verdict{action: again, at: now} // the failure says nothing about the Provider as it is now
	}
	v := s.judge(d, failure, now)
	v.began, v.took, v.failure = started, took, failure
	next := v.at
	if v.action == reschedule {
		next = later(next, now.Add(pauseOf(failure)))
	}
	d.Failed(started, took, failure, next)
	return v
}

func (s *shard) wasSent(work context.Context, d *event.Delivery) (bool, error) {
	ctx, cancel := busContext(work)
	defer cancel()
	return s.Bus.WasSent(ctx, d)
}

// send makes one attempt, which its Sender bounds. A panic fails the attempt, under a label of its own: a Sender must not end the
// process.
func (s *shard) send(work context.Context, d *event.Delivery, dest *Destination) (err error) {
	defer func() {
		if p := recover(); p != nil {
			// The value may quote the sender's input; the stack holds no values.
			s.log.Error("sender panicked", "type", dest.Type, "namespace", d.Namespace, "provider", d.Provider,
				"value", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			err = event.NewError(event.Retry, labelPanic, "internal error in the sender", errPanic)
		}
	}()
	return dest.Sender.Send(work, s.notification(d))
}

// notification returns the notification that a destination gets for a delivery.
func notification(d *event.Delivery) provider.Notification {
	return provider.Notification{
		Event: d.Event, Authored: d.Authored, Annotated: d.Annotated, DeliveryID: d.ID, Replayed: d.Replays > 0,
		Alert: d.Alert, AlertUID: d.AlertUID,
	}
}

// notification returns the notification that a destination is sent for a delivery of the shard.
func (s *shard) notification(d *event.Delivery) provider.Notification {
	n := notification(d)
	n.Since = s.since
	return n
}

// needless reports whether the destination knows that a delivery, the first in its line, would change nothing.
func (s *shard) needless(it *item, dest *Destination) bool {
	sender, ok := dest.Sender.(provider.Sparing)
	return ok && sender.Needless(s.notification(&it.d))
}

// judge decides the next step after a failed attempt and writes the attempt into d. After the first attempt it also records a Kubernetes
// Event for the Alert's owner.
func (s *shard) judge(d *event.Delivery, failure *event.Error, now time.Time) verdict {
	d.Attempts++
	d.LastError = failure.Reason
	v := verdict{label: failure.Label, reason: failure.Reason}
	switch {
	case failure.Class == event.Permanent, errors.Is(failure, errPanic) && d.Attempts >= maxPanics:
		v.action = toDeadLetters
	case !now.Before(s.expiry(d)):
		v.action, v.label = toDeadLetters, labelExpired
		v.reason = s.expired(failure.Reason)
	default:
		v.action, v.outcome, v.at = reschedule, outcomeRetry, retryAt(d, failure.RetryAfter, now, s.expiry(d))
		d.Reschedules++
		if d.Attempts == 1 {
			s.recordFailure(d, failure.Reason+"; will retry")
		}
	}
	return v
}

// recordFailure records a Kubernetes Event on the Alert, or on the Provider that a test message is for.
func (d *Deliverer) recordFailure(failed *event.Delivery, reason string) {
	if failed.Test {
		d.Recorder.Event(kindProvider, failed.Namespace, failed.Provider, failed.ProviderUID, warning, ReasonDispatchFailed, "test message: "+reason)
		return
	}
	d.Recorder.Event(kindAlert, failed.Namespace, failed.Alert, failed.AlertUID, warning, ReasonDispatchFailed,
		fmt.Sprintf("notification about %s to Provider %s: %s", failed.Event.InvolvedObject, failed.Provider, reason))
}

// conclude carries a verdict out, and returns the function with which the loop takes in the result.
func (s *shard) conclude(work context.Context, it *item, dest *Destination, v verdict) (end func()) {
	decided := v.action
	stored := s.store(work, it, &v)
	if stored {
		s.account(work, &it.d, dest, v)
	}
	return func() {
		if v.action != decided {
			s.dead.changes[it.queue.key]++ // until concluded
		}
		s.concluded(work, it, v, stored)
	}
}

// reasonTooLarge is the reason of a delivery that cannot wait on the bus.
const reasonTooLarge = "the delivery is larger than the bus takes, and cannot wait there"

// store puts an outcome on the bus, for as long as that takes, and only then acknowledges the message. It reports false if the drain came
// first: then the outcome is unknown and the bus must hand the message out again. A delivery that the bus does not take for the schedule
// becomes a dead letter, and v its verdict.
func (s *shard) store(work context.Context, it *item, v *verdict) bool {
	it.awaitSpill()
	d := &it.d
	var write func(context.Context) error
	switch v.action {
	case record:
		d.Succeeded(v.began, v.took)
		write = func(ctx context.Context) error { return s.Bus.Sent(ctx, d) }
	case toDeadLetters:
		write = func(ctx context.Context) error { return s.Bus.DeadLetter(ctx, d, v.label, v.reason) }
	case reschedule:
		write = func(ctx context.Context) error {
			if v.action == reschedule {
				if err := s.Bus.Reschedule(ctx, d, v.at); !errors.Is(err, event.ErrTooLarge) {
					return err
				}
				*v = verdict{action: toDeadLetters, label: event.LabelTooLarge, reason: reasonTooLarge}
			}
			return s.Bus.DeadLetter(ctx, d, v.label, v.reason)
		}
	case drop:
		write = func(context.Context) error { return nil }
	case again:
		return true
	default:
		return false
	}
	if v.action != record && (work.Err() != nil || !event.Owned(work)) {
		return false // there may be many, and the next owner decides as well, by what it knows
	}
	if it.recalled && v.action != reschedule { // the bus does not hand it out again before its lifetime ends
		return s.persist(work, d.Namespace, write) && s.persist(work, d.Namespace, it.acker.Ack)
	}
	return s.persist(work, d.Namespace, func(ctx context.Context) error {
		if err := write(ctx); err != nil {
			return err
		}
		if until, _ := ctx.Deadline(); time.Until(until) < busTimeout/2 {
			s.done(work, it.acker) // too little is left for the acknowledgement
		} else {
			s.ack(ctx, it.acker)
		}
		return nil
	})
}

// persist calls the bus until a write succeeds, or the drain has ended work. The namespace is for the log.
func (s *shard) persist(work context.Context, namespace string, write func(context.Context) error) bool {
	for gap := busGap; ; gap = min(2*gap, maxBusGap) {
		ctx, cancel := busContext(work)
		err := write(ctx)
		cancel()
		if err == nil {
			return true
		}
		s.metrics.busErrors.Inc()
		s.log.Warn("outcome of a delivery not stored", "namespace", namespace, "error", err)
		select {
		case <-work.Done():
			return false
		case <-time.After(gap):
		}
	}
}

// done acknowledges a message.
func (s *shard) done(work context.Context, m event.Acker) {
	ctx, cancel := busContext(work)
	defer cancel()
	s.ack(ctx, m)
}

// ack acknowledges a message. If the bus does not receive the acknowledgement, it hands the message out again. The outcome is then known
// from the copy on the schedule or the record in the history.
func (s *shard) ack(ctx context.Context, m event.Acker) {
	if err := m.Ack(ctx); err != nil {
		s.metrics.busErrors.Inc()
		s.log.Debug("message not acknowledged, it will come again", "error", err)
	}
}

// busContext bounds a call of the bus by time alone: an outcome is stored even after the sends were cut off.
func busContext(work context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(work), busTimeout)
}

// account reports an outcome, unless the delivery was put back without an attempt.
func (s *shard) account(ctx context.Context, d *event.Delivery, dest *Destination, v verdict) {
	switch {
	case v.action == toDeadLetters:
		s.Lost(d, dest, v.label, v.reason) //nolint:contextcheck // the router has no context for it
	case v.outcome != "":
		s.report(ctx, s.log, d, dest, v)
	}
}

// report counts and logs an outcome, and has the ledger note it if it changes the state of the delivery's Alert or Provider.
func (d *Deliverer) report(ctx context.Context, log *slog.Logger, of *event.Delivery, dest *Destination, v verdict) {
	d.metrics.count(dest, v.outcome, cmp.Or(v.label, labelNone))
	level := slog.LevelInfo
	switch v.action {
	case drop:
		level = slog.LevelDebug
	case toDeadLetters:
		level = slog.LevelWarn
	}
	if v.action != drop {
		d.Reports.note(of, dest, v, time.Now())
	}
	if !log.Enabled(ctx, level) {
		return
	}
	if left, ok := d.logLines.Admit(of.Namespace); ok {
		log.Log(ctx, level, "delivery", "outcome", v.outcome, "id", of.ID, "namespace", of.Namespace, "object", of.Event.InvolvedObject.String(), "alert", of.Alert,
			"provider", of.Provider, "attempts", of.Attempts, "reason", v.reason, "lines_left_out", left)
	}
}

// Lost counts and logs a delivery that was given up, and reports it to the owners of its Alert and its Provider, which is looked up where
// dest is nil. The reason is safe to show.
func (d *Deliverer) Lost(lost *event.Delivery, dest *Destination, label, reason string) {
	if dest == nil {
		dest = d.Destinations.Get(lost.Namespace, lost.Provider)
	}
	d.report(context.Background(), d.Log, lost, dest, verdict{action: toDeadLetters, outcome: outcomeDead, label: label, reason: reason})
	d.recordFailure(lost, reason)
	if dest == nil || lost.Test { // a test message's failure was recorded above, and no notification is lost
		return
	}
	d.Recorder.Event(kindProvider, lost.Namespace, lost.Provider, dest.UID, warning, ReasonGivenUp,
		fmt.Sprintf("notification about %s for Alert %s was given up: %s", lost.Event.InvolvedObject, lost.Alert, reason))
}
