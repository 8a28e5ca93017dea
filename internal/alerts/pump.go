package alerts

import (
	"cmp"
	"context"
	"time"

	"notifier/internal/event"
)

const (
	// lookAgain is how often an unusable Provider or an absent Alert is looked up.
	lookAgain = 5 * time.Second
	// ownerGrace is how long an Alert may be unknown before its deliveries are given up: this replica's informer may lag behind that of the
	// replica that routed.
	ownerGrace = time.Minute
)

// pump starts the sends that may start now, puts surplus deliveries back, and recalls others from the schedule. It wakes the queue again
// when more may be sent.
func (s *shard) pump(work context.Context, q *queue) {
	if s.draining {
		return
	}
	now := time.Now()
	if dest := s.destination(work, q, now); dest != nil {
		s.replay(work, q, dest, now)
		if !q.listing {
			s.sendAll(work, q, dest, now)
		}
	}
	s.trim(work, q, now)
	s.refill(work, q, now)
	s.tellHealth(q)
}

// destination returns the queue's Destination. It returns nil if that cannot be used, after it blocked the queue or gave up its
// deliveries.
func (s *shard) destination(work context.Context, q *queue, now time.Time) *Destination {
	dest := s.Destinations.Get(q.key.Namespace, q.key.Provider)
	if dest != nil {
		q.absent = time.Time{}
	}
	switch {
	case dest == nil:
		if q.absent.IsZero() {
			q.absent = now
		}
		s.block(q, "", ReasonProviderNotFound, "Provider "+q.key.Provider+" not found", now)
		return nil
	case dest.Suspended:
		q.adopt(dest, now)
		s.giveUpAll(work, q, labelSuspended, ReasonSuspended+": the Provider is suspended")
		return nil
	case dest.Unsupported:
		q.adopt(dest, now)
		s.giveUpAll(work, q, labelUnsupported, dest.NotReady)
		return nil
	case dest.Sender == nil:
		reason := cmp.Or(dest.NotReady, "Provider "+q.key.Provider+" is not ready")
		s.block(q, dest.UID, ReasonProviderNotReady, reason, now)
		return nil
	}
	q.adopt(dest, now)
	return dest
}

// block delays a queue whose Provider cannot be used, and reports that to each delivery's Alert once.
func (s *shard) block(q *queue, uid, reason, message string, now time.Time) {
	if q.entries == 0 {
		return
	}
	q.unusable = true
	q.setHealth(uid, Health{State: StateFailing, Reason: reason, Message: message})
	for _, it := range q.waiting {
		if it.d.LastError != reason {
			if it.d.Reschedules == 0 {
				s.recordFailure(&it.d, reason+": "+message+"; will retry")
			}
			it.d.LastError = reason
		}
	}
	s.wakes.set(q, now.Add(lookAgain))
}

// sendAll starts sends as long as breaker, limiter, concurrency and the places of the namespace allow.
func (s *shard) sendAll(work context.Context, q *queue, dest *Destination, now time.Time) {
	for {
		if opens := q.opensAt(); opens.After(now) {
			s.wakes.set(q, opens)
			return
		}
		if q.inflight >= q.breaker.concurrency() {
			return // woken when one ends
		}
		it, soonest := q.next(now, func() bool { return s.shards.awaits(s.number, q.key.Namespace) })
		if it == nil {
			if !soonest.IsZero() {
				s.wakes.set(q, soonest)
			}
			return
		}
		if !s.owned(work, it, dest, now) {
			continue
		}
		if s.needless(it, dest) {
			s.spare(work, it, dest)
			continue
		}
		place, ok := s.sends.take(q.key.Namespace, q.inflight > 0 || q.breaker.open())
		if !ok {
			s.metrics.atCapacity.Inc()
			s.wakes.set(q, now.Add(placePause))
			return
		}
		if wait := q.token(now); wait > 0 {
			place.release()
			s.wakes.set(q, now.Add(wait))
			return
		}
		s.start(work, it, dest, place)
	}
}

// owned reports whether the delivery's Alert, or the Provider of a test message, still exists. If not, the item is delayed or given up,
// so the caller looks for the next one.
func (s *shard) owned(work context.Context, it *item, dest *Destination, now time.Time) bool {
	d := &it.d
	if d.Test && d.ProviderUID != dest.UID {
		s.giveUp(work, it, labelOwnerGone, reasonOwnerGone)
		return false
	}
	switch exists, gone := s.ownerOf(d.Namespace, owner{d.Alert, d.AlertUID}, d.Routed, now); {
	case exists:
		return true
	case gone:
		s.giveUp(work, it, labelOwnerGone, reasonOwnerGone)
	default:
		it.due = now.Add(lookAgain)
	}
	return false
}

const reasonOwnerGone = "OwnerGone: the Alert or its Provider was deleted, or deleted and made anew"

// ownerOf returns whether an Alert exists, and if not, whether that is certain: this replica's informer may lag.
func (s *shard) ownerOf(namespace string, o owner, routed, now time.Time) (exists, gone bool) {
	if o == (owner{}) {
		return true, false // a test message has no Alert
	}
	a, known := s.Alerts.Lookup(namespace, o.alert)
	if known && a.UID == o.uid {
		return true, false
	}
	// An Alert with this name that was made after the event was routed is a successor: the informer does not lag.
	successor := known && a.Created.After(routed)
	return false, successor || now.Sub(routed) >= ownerGrace
}

// ended reports whether a delivery has lost its Alert or its Provider. A Provider that did not exist when the event was routed has not
// been lost: the delivery waits for it.
func (s *shard) ended(q *queue, d *event.Delivery, now time.Time) bool {
	if d.ProviderUID != "" && q.gone(now) {
		return true
	}
	_, gone := s.ownerOf(d.Namespace, owner{d.Alert, d.AlertUID}, d.Routed, now)
	return gone
}

// start sends an item, and releases its place.
func (s *shard) start(work context.Context, it *item, dest *Destination, place sendPlace) {
	q := it.queue
	it.d.Destination = dest.Version
	q.dequeue(it)
	q.inflight++
	it.busy, it.line.sending = true, it
	it.storing, it.spilled = false, nil
	s.spawnFor(func() func() {
		v := s.try(work, it, dest)
		place.release()
		s.post(func() { s.attempted(work, it, dest, v) })
		return s.conclude(work, it, dest, v)
	})
}

// trim puts back the items beyond the bounds of the queue or the shard.
func (s *shard) trim(work context.Context, q *queue, now time.Time) {
	depth := q.depth(now)
	if s.heldBytes.Load() > maxHeldBytes {
		depth = badDepth
	}
	if over := len(q.waiting) - depth; over > 0 {
		s.shed(work, q, over, now)
	}
	over := s.staying() - maxHeld
	if over <= 0 {
		return
	}
	if s.longest != nil && len(s.longest.waiting) > max(badDepth, len(q.waiting)) {
		q = s.longest
	}
	s.shed(work, q, min(over, len(q.waiting)), now)
}

// attempted takes in the result of an attempt before its outcome is on the bus: the destination is free for the next one.
func (s *shard) attempted(work context.Context, it *item, dest *Destination, v verdict) {
	q := it.queue
	q.inflight--
	if v.action == toDeadLetters {
		s.dead.changes[q.key]++
	}
	if !v.began.IsZero() && q.attempted(dest, v.took, v.failure, time.Now()) {
		s.log.Warn("destination fails, sending only probes", "namespace", q.key.Namespace, "provider", q.key.Provider, "reason", v.failure.Reason)
	}
	s.pump(work, q)
}

// concluded takes in that an item's outcome is on the bus, or that it could not be stored.
func (s *shard) concluded(work context.Context, it *item, v verdict, stored bool) {
	q, now := it.queue, time.Now()
	if v.action == toDeadLetters {
		s.dead.changes[q.key]--
	}
	if !stored { // the ownership has ended: the item stays busy, so that nothing of its line is tried here any more
		s.returnAll(it)
		return
	}
	if it.line.sending == it {
		it.line.sending = nil
	}
	it.busy = false
	switch {
	case v.action == again && s.draining:
		s.returnAll(it)
		return
	case v.action == again:
		it.due = v.at
		s.enqueue(it)
	default:
		s.drop(it)
		rescheduled := it.entry.rescheduled
		// Without an attempt under the present configuration it waits to be recalled.
		q.release(it, v.at, v.action == reschedule && (v.outcome == "" || q.changedSince(&it.d)))
		others := s.ackTwins(work, it, v)
		if v.action == toDeadLetters {
			s.dead.add(q.key, it.d.Alert, 1)
			s.dead.get(q.key).revivable = now.Add(s.ReplayWindow)
			q.died(&it.d, v.failure)
		}
		if v.action != reschedule {
			if rescheduled && !it.recalled {
				s.discard(work, q, it)
			}
			q.forget(it.line, it.entry, now)
		}
		for _, h := range others {
			if s.draining {
				s.nak(h.Acker)
				continue
			}
			s.admit(work, h)
		}
	}
	s.pump(work, q)
}

// ackTwins acknowledges the duplicate messages of a delivery whose outcome is on the bus, and returns the others. After a reschedule these are
// those that were rescheduled at least as often: another owner may have put them on the schedule, as the newest copies of the delivery.
// After any outcome they are those of a later replay: a dead letter may be replayed as soon as it is written, before this is known here.
func (s *shard) ackTwins(work context.Context, it *item, v verdict) (others []event.Message[event.Delivery]) {
	for _, t := range it.twins {
		if t.Value.Replays > it.d.Replays || v.action == reschedule && !newer(&it.d, &t.Value) {
			others = append(others, t)
			continue
		}
		if v.action == reschedule && t.Value.Reschedules > 0 {
			s.ackReplaced(work, it.queue, it.line, it.entry, t)
			continue
		}
		s.spawn(func() { s.done(work, t.Acker) })
	}
	it.twins = nil
	return others
}

// ackReplaced acknowledges an older message of a delivery that was put on the schedule again, if it is there. As the time of the older message
// came, the bus may have removed the newer one from the schedule in its stead. Then the delivery goes on as in the older message, also if the
// newer one was of a later replay.
func (s *shard) ackReplaced(work context.Context, q *queue, l *line, e *entry, older event.Message[event.Delivery]) {
	p, taken := q.scheduled(l, e), e.taken
	s.spawnFor(func() func() {
		there := false
		known := s.persist(work, p.Namespace, func(ctx context.Context) error {
			found, err := s.Bus.Recall(ctx, s.number, p)
			there = !found.At.IsZero()
			return err
		})
		if there {
			s.done(work, older.Acker)
			return func() {}
		}
		return func() {
			if !known || s.draining {
				s.nak(older.Acker)
				return
			}
			if e.taken == taken { // else it may be there by now
				e.replays = min(e.replays, replaysOf(&older.Value))
			}
			s.admit(work, older)
		}
	})
}
