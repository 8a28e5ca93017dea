package alerts

import (
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
	// A call of the bus that failed is tried again after busGap, doubling up to maxBusGap.
	busGap    = 200 * time.Millisecond
	maxBusGap = 2 * time.Second
	// askAgain is when a delivery is tried again whose history could not be read.
	askAgain = time.Second
)

// action is what becomes of a delivery.
type action int

const (
	nak           action = iota // back to the bus, outcome unknown
	record                      // sent
	toDeadLetters               // to the dead letters
	reschedule                  // to the schedule
	drop                        // nothing to be done any more
	again                       // stays in memory
)

// verdict is what an attempt, or the lack of one, comes to.
type verdict struct {
	action action
	// at is when a rescheduled delivery comes back or one that stays is tried again.
	at time.Time
	// onSchedule says that it waits on the schedule until it is recalled.
	onSchedule bool
	// label and reason say why.
	label, reason string
	// outcome is for the metrics.
	outcome string
	// began and took are of the attempt, zero when there was none.
	began time.Time
	took  time.Duration
}

// attempt is what the queue learns from one.
type attempt struct {
	// made is false if nothing was sent, or the send was cut off by the drain.
	made bool
	err  *event.Error
	took time.Duration
}

// errPanic marks a Sender that panicked.
var errPanic = errors.New("sender panicked")

// try sends a delivery unless it was sent before. It owns the item's delivery meanwhile.
func (s *shard) try(work context.Context, it *item, dest *Destination) (verdict, attempt) {
	d := &it.d
	if d.ProviderUID == "" && !dest.takes(notification(d)) {
		// The router drops these when it knows the Provider.
		return verdict{action: drop, outcome: outcomeSkipped}, attempt{}
	}
	if !it.unsent && !it.fresh() {
		switch sent, err := s.wasSent(work, d); {
		case err != nil:
			s.metrics.busErrors.Inc()
			s.log.Debug("history not read", "namespace", d.Namespace, "error", err)
			return verdict{action: again, at: time.Now().Add(askAgain)}, attempt{}
		case sent:
			return verdict{action: drop, outcome: outcomeKnown}, attempt{}
		}
	}
	if !event.Owned(work) {
		return verdict{action: nak}, attempt{} // the new owner of the shard sends it
	}
	started := time.Now()
	err := s.send(work, d, dest)
	now := time.Now()
	took := now.Sub(started)
	s.metrics.sends.WithLabelValues(s.metrics.typeOf(dest)).Observe(took.Seconds())
	if err == nil {
		return verdict{action: record, outcome: outcomeSent, label: labelNone, began: started, took: took}, attempt{made: true, took: took}
	}
	if work.Err() != nil || !event.Owned(work) {
		return verdict{action: nak}, attempt{}
	}
	failure := event.AsError(err)
	it.mu.Lock() // a copy may be made for the schedule
	defer it.mu.Unlock()
	v := s.judge(d, failure, started, now)
	d.Failed(started, took, failure, v.at)
	return v, attempt{made: true, err: failure, took: took}
}

func (s *shard) wasSent(work context.Context, d *event.Delivery) (bool, error) {
	ctx, cancel := busContext(work)
	defer cancel()
	return s.History.WasSent(ctx, d)
}

// send makes one attempt, which its Sender bounds. A panic is a failure like another, but for its label: a Sender must not take the process
// down.
func (s *shard) send(work context.Context, d *event.Delivery, dest *Destination) (err error) {
	defer func() {
		if p := recover(); p != nil {
			// The value may quote what the sender worked on; the stack holds no values.
			s.log.Error("sender panicked", "type", dest.Type, "namespace", d.Namespace, "provider", d.Provider,
				"value", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			err = event.NewError(event.Retry, labelPanic, "internal error in the sender", errPanic)
		}
	}()
	return dest.Sender.Send(work, notification(d))
}

// notification is what a destination is sent of a delivery.
func notification(d *event.Delivery) provider.Notification {
	return provider.Notification{
		Event: d.Event, Authored: d.Authored, DeliveryID: d.ID, Replayed: d.Replays > 0, Alert: d.Alert, AlertUID: d.AlertUID,
	}
}

// judge decides what follows a failed attempt, writes it into d and tells the Alert's owner.
func (s *shard) judge(d *event.Delivery, failure *event.Error, started, now time.Time) verdict {
	d.Attempts++
	if d.FirstAttempt.IsZero() {
		d.FirstAttempt = started
	}
	d.LastError = failure.Reason
	v := verdict{label: failure.Label, reason: failure.Reason}
	switch {
	case failure.Class == event.Permanent, errors.Is(failure, errPanic) && d.Attempts >= maxPanics:
		v.action, v.outcome = toDeadLetters, outcomeDead
	case !now.Before(s.expiry(d)):
		v.action, v.outcome, v.label = toDeadLetters, outcomeDead, labelExpired
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
func (s *Deliverer) recordFailure(d *event.Delivery, reason string) {
	if d.Test {
		s.Recorder.Event(kindProvider, d.Namespace, d.Provider, d.ProviderUID, warning, ReasonDispatchFailed, "test message: "+reason)
		return
	}
	s.Recorder.Event(kindAlert, d.Namespace, d.Alert, d.AlertUID, warning, ReasonDispatchFailed,
		fmt.Sprintf("notification about %s to Provider %s: %s", d.Event.InvolvedObject, d.Provider, reason))
}

// conclude carries a verdict out, and returns what has the loop take in the result.
func (s *shard) conclude(work context.Context, it *item, dest *Destination, v verdict) (end func()) {
	stored := s.store(work, it, v)
	if stored {
		s.account(work, &it.d, dest, v)
	}
	return func() { s.concluded(work, it, v, stored) }
}

// store puts an outcome on the bus, as long as it takes, and only then ends the hold on the message. It reports false if the
// drain came first: then nobody knows of the outcome and the message must come again.
func (s *shard) store(work context.Context, it *item, v verdict) bool {
	it.awaitSpill()
	d := &it.d
	var write func(context.Context) error
	switch v.action {
	case record:
		d.Succeeded(v.began, v.took)
		write = func(ctx context.Context) error { return s.History.Sent(ctx, d) }
	case toDeadLetters:
		write = func(ctx context.Context) error { return s.Schedule.DeadLetter(ctx, d, v.label, v.reason) }
	case reschedule:
		write = func(ctx context.Context) error { return s.Schedule.Reschedule(ctx, d, v.at) }
	case drop:
		write = func(context.Context) error { return nil }
	case again:
		return true
	default:
		return false
	}
	if v.action != record && work.Err() != nil {
		return false // there may be many, and whoever gets them next decides as well
	}
	if !s.persist(work, d.Namespace, write) {
		return false
	}
	if it.recalled && v.action != reschedule {
		return s.persist(work, d.Namespace, it.acker.Ack) // nobody hands it out again before its lifetime ends
	}
	s.done(work, it.acker)
	return true
}

// persist calls the bus until it has done what it is asked for a namespace, or the drain has cut the work off.
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

// done ends the hold on a message. If the bus does not hear of it, the message comes again and its twin on the schedule or its
// record in the history tells what became of it.
func (s *shard) done(work context.Context, m event.Acker) {
	ctx, cancel := busContext(work)
	defer cancel()
	if err := m.Ack(ctx); err != nil {
		s.metrics.busErrors.Inc()
		s.log.Debug("message not acknowledged, it will come again", "error", err)
	}
}

// busContext bounds a call of the bus by time alone: an outcome is still stored when the sends have been cut off.
func busContext(work context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(work), busTimeout)
}

// account counts and logs an outcome.
func (s *shard) account(ctx context.Context, d *event.Delivery, dest *Destination, v verdict) {
	outcome := v.outcome
	switch {
	case v.action == toDeadLetters:
		s.lost(d, dest, v.label, v.reason)
		return
	case outcome == "":
		return // put back without an attempt
	}
	label := v.label
	if label == "" {
		label = labelNone
	}
	s.metrics.count(dest, outcome, label)
	level := slog.LevelInfo
	if outcome == outcomeKnown || outcome == outcomeSkipped {
		level = slog.LevelDebug
	} else {
		s.note(d, dest, v)
	}
	if s.log.Enabled(ctx, level) {
		s.log.Log(ctx, level, "delivery", "outcome", outcome, "id", d.ID, "namespace", d.Namespace, "object", d.Event.InvolvedObject.String(), "alert", d.Alert,
			"provider", d.Provider, "attempts", d.Attempts, "reason", v.reason)
	}
}
