package alerts

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"notifier/internal/event"
)

// DefaultReplayWindow is the greatest age at which a dead letter is replayed when its Provider is mended.
const DefaultReplayWindow = time.Hour

// final are the labels of dead letters that a change of the Provider cannot revive: they are unwanted, or cannot be sent.
var final = []string{labelOwnerGone, labelSuspended, labelUnsupported, labelUnverified, event.LabelTooLarge}

// replay has a Provider's dead letters tried once more when their cause may be mended. After a change of the Provider, or of a Secret
// that it names, these are the dead letters from before the change. After a success that follows a refusal, they are those that were
// never replayed.
func (s *shard) replay(work context.Context, q *queue, dest *Destination, now time.Time) {
	if q.replaying {
		return // and again when that has ended
	}
	mended, recovered := q.mended, q.recovered
	q.mended, q.recovered = false, false
	if !mended && !recovered || !s.dead.revivable(q.key, now) || s.ReplayWindow == 0 {
		return
	}
	q.replaying, q.listing = true, true
	s.spawn(func() {
		var letters []event.Dead // outlines: all of them get their places before any is sent
		err := s.whole.each(work, q.key, now.Add(-s.ReplayWindow), func(l *event.Dead) {
			changed := l.Delivery.Destination != dest.Version
			if !slices.Contains(final, l.Label) && (mended && changed || recovered && l.Delivery.Replays == 0) {
				letters = append(letters, outlineOf(l))
			}
		})
		s.post(func() {
			q.listing = false
			if err != nil {
				s.metrics.busErrors.Inc()
				s.log.Warn("dead letters not read", "namespace", q.key.namespace, "provider", q.key.name, "error", err)
				s.pump(work, q) // it does not list them at once, as q is replaying
				q.replaying, q.mended, q.recovered = false, q.mended || mended, q.recovered || recovered
				s.wakes.set(q, time.Now().Add(recallGap))
				return
			}
			for i := range letters {
				renew(&letters[i].Delivery, time.Now())
			}
			s.publish(work, q, letters, new(atomic.Int64), func() { q.replaying = false })
			s.pump(work, q)
		})
	})
}
