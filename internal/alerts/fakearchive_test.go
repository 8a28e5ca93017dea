package alerts

import (
	"context"
	"slices"
	"strconv"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// sentAt is a delivery as it was recorded as sent.
type sentAt struct {
	d  event.Delivery
	at time.Time
}

func viewOf(d *event.Delivery, state view.State, at time.Time) view.Delivery {
	return view.Delivery{
		ID: d.ID, Namespace: d.Namespace, Alert: d.Alert, Provider: d.Provider, State: state, Time: at, Routed: d.Routed, Order: d.Order,
		Replays: d.Replays,
	}
}

// kept lists the deliveries that the bus has, newest first.
func (b *fakeBus) kept() (all []view.Delivery) {
	for _, s := range b.sentLog {
		all = append(all, viewOf(&s.d, view.StateSent, s.at))
	}
	for _, l := range b.dead {
		v := viewOf(&l.d, view.StateDead, l.at)
		v.Seq = l.seq
		all = append(all, v)
	}
	for _, m := range slices.Concat(b.stream, b.schedule) {
		if m.rescheduled {
			all = append(all, viewOf(&m.d, view.StatePending, time.Now()))
		}
	}
	slices.SortStableFunc(all, func(x, y view.Delivery) int { return y.Time.Compare(x.Time) })
	return all
}

func (s *fakeSession) ListDeliveries(_ context.Context, namespace string, q view.Query) (page view.Page[view.Delivery], err error) {
	err = s.op("list", func() {
		all := slices.DeleteFunc(s.kept(), func(d view.Delivery) bool {
			return d.Namespace != namespace || q.State != "" && d.State != q.State || q.Provider != "" && d.Provider != q.Provider ||
				q.Alert != "" && d.Alert != q.Alert || d.Time.Before(q.Since) || !q.Until.IsZero() && !d.Time.Before(q.Until)
		})
		from, _ := strconv.Atoi(q.Cursor)
		to := min(len(all), from+q.Limit)
		page.Items = all[from:to]
		if to < len(all) {
			page.Next = strconv.Itoa(to)
		}
	})
	return page, err
}

func (s *fakeSession) FindDeliveries(
	_ context.Context, namespace string, since time.Time, ids []string,
) (found map[string]view.Delivery, err error) {
	found = map[string]view.Delivery{}
	err = s.op("find", func() {
		for _, d := range s.kept() {
			if _, newer := found[d.ID]; !newer && d.Namespace == namespace && slices.Contains(ids, d.ID) && !d.Time.Before(since) {
				found[d.ID] = d
			}
		}
	})
	return found, err
}

func (s *fakeSession) EventAt(_ context.Context, namespace string, order uint64) (rec *event.Record, err error) {
	failed := s.op("event", func() {
		if rec = s.records[order]; rec == nil || rec.Event.InvolvedObject.Namespace != namespace {
			err = view.ErrNotFound
			return
		}
		rec = s.large.event(rec)
	})
	s.large.measure()
	if failed != nil {
		return nil, failed
	}
	return rec, err
}

// deadIDs returns the IDs of the dead letters.
func (b *fakeBus) deadIDs() map[string]bool {
	dead := map[string]bool{}
	for _, l := range b.deadLetters() {
		dead[l.d.ID] = true
	}
	return dead
}

func (b *fakeBus) parkings() []parkedAt {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.rescheduleLog)
}
