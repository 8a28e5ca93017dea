package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/bus/browse"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

const (
	// maxID bounds the IDs that are looked up, in bytes.
	maxID = 256
	// soon is the time after an event was accepted within which most of its sent deliveries are sent.
	soon = 10 * time.Minute
)

// searchBudget returns the budget of the search for one ID.
func searchBudget() *browse.Budget {
	return &browse.Budget{Messages: 1 << 20, Bytes: 1 << 30, Requests: 1 << 14, Until: time.Now().Add(3 * time.Second)}
}

// FindDelivery returns the record of a delivery, or view.ErrNotFound: of a waiting one, else of a dead letter, else of a sent one. A sent
// one is looked for among the newest of its namespace, as far as three seconds of reading reach.
func (b *Bus) FindDelivery(ctx context.Context, namespace, id string) (view.DeliveryDetail, error) {
	return reading(ctx, b.reads, "find delivery", func(ctx context.Context) (detail view.DeliveryDetail, err error) {
		f := &finder{reads: b.reads, namespace: namespace, wanted: map[string]bool{id: true}, budget: searchBudget()}
		if err := f.find(ctx, time.Time{}); err != nil {
			return detail, err
		}
		detail, ok := f.found[id]
		if !ok {
			return detail, view.ErrNotFound
		}
		err = b.reads.addMessage(ctx, &detail)
		return detail, err
	})
}

// FindDeliveries returns the records of deliveries of an event that was accepted at the given time, by their IDs. Those that are not found
// are left out.
func (b *Bus) FindDeliveries(ctx context.Context, namespace string, accepted time.Time, ids []string) (map[string]view.Delivery, error) {
	return reading(ctx, b.reads, "find deliveries", func(ctx context.Context) (map[string]view.Delivery, error) {
		f := &finder{reads: b.reads, namespace: namespace, wanted: map[string]bool{}, budget: searchBudget()}
		for _, id := range ids {
			f.wanted[id] = true
		}
		err := f.find(ctx, accepted)
		found := make(map[string]view.Delivery, len(f.found))
		for id, detail := range f.found {
			found[id] = detail.Delivery
		}
		return found, err
	})
}

// finder looks for deliveries of a namespace by their IDs.
type finder struct {
	reads     *reads
	namespace string
	wanted    map[string]bool // but for those that are found
	found     map[string]view.DeliveryDetail
	budget    *browse.Budget
}

// find looks for the wanted deliveries in each stream. None is older than since by the clock of a replica, unless that is zero.
func (f *finder) find(ctx context.Context, since time.Time) error {
	f.found = map[string]view.DeliveryDetail{}
	maps.DeleteFunc(f.wanted, func(id string, _ bool) bool { return id == "" || len(id) > maxID })
	steps, later := []func(context.Context) error{f.pending, func(ctx context.Context) error { return f.dead(ctx, since) }}, since
	if !since.IsZero() {
		later, since = since.Add(soon), since.Add(-browse.MaxSkew)
		steps = append(steps, func(ctx context.Context) error { return f.sent(ctx, since, later) })
	}
	steps = append(steps, func(ctx context.Context) error { return f.sent(ctx, later, time.Time{}) })
	steps = append(steps, f.pending) // what became due, was rescheduled or was replayed meanwhile may have been missed
	for _, step := range steps {
		if len(f.wanted) == 0 {
			return nil
		}
		if err := step(ctx); err != nil && !errors.Is(err, view.ErrNotFound) {
			return err
		}
	}
	return nil
}

func (f *finder) take(d view.DeliveryDetail) {
	if f.wanted[d.ID] {
		delete(f.wanted, d.ID)
		if d.Tries == nil {
			d.Tries = []view.Attempt{}
		}
		f.found[d.ID] = d
	}
}

// pending looks among the waiting deliveries, whose subjects have the IDs.
func (f *finder) pending(ctx context.Context) error {
	stream, err := f.reads.stream(ctx, streamDeliveries)
	if err != nil {
		return err
	}
	subjects, err := stream.Subjects(ctx, waitingFilter(f.namespace, anyToken))
	if err != nil {
		return fmt.Errorf("list the waiting deliveries: %w", err)
	}
	shared := interned{}
	for _, subject := range subjects {
		p, err := parseScheduledSubject(subject, shared)
		if err != nil || p.Namespace != f.namespace || !f.wanted[p.ID] {
			continue
		}
		m, err := stream.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // it has just been removed
		}
		if err != nil {
			return err
		}
		if d, err := decodeDelivery(asMsg(m)); err == nil && d.ID == p.ID {
			f.take(whole(&d, pendingView(&d, m)))
		}
	}
	return nil
}

// dead looks among the dead letters.
func (f *finder) dead(ctx context.Context, since time.Time) error {
	return f.search(ctx, streamDeadLetters, deadFilter(f.namespace, anyToken), period{since: since}, func(m *jetstream.RawStreamMsg) {
		if !f.wanted[header(m.Header, headerID)] {
			return
		}
		d, err := decodeDelivery(asMsg(m))
		if err != nil {
			d = event.Delivery{}
		}
		f.take(whole(&d, deadView(m)))
	})
}

// fewWanted is the number of IDs up to which a message of HISTORY is searched for each of them before it is decoded. A message may have
// 128 KiB: a thousand searches would take far longer than the decoding.
const fewWanted = 32

// sent looks in the history.
func (f *finder) sent(ctx context.Context, since, until time.Time) error {
	marks := map[string][]byte{}
	for id := range f.wanted {
		marks[id], _ = json.Marshal(id) // a string always has a form in JSON
	}
	return f.search(ctx, streamHistory, historyFilter(f.namespace, anyToken), period{since, until}, func(m *jetstream.RawStreamMsg) {
		if len(f.wanted) <= fewWanted && !f.mentioned(m.Data, marks) {
			return
		}
		records := sentRecords(m.Data)
		slices.Reverse(records)
		for _, r := range records {
			if f.wanted[r.ID] {
				f.take(r.detail(f.namespace, providerOf(m.Subject), m.Time))
			}
		}
	})
}

// mentioned reports whether a message has the mark of a wanted ID.
func (f *finder) mentioned(data []byte, marks map[string][]byte) bool {
	for id := range f.wanted {
		if bytes.Contains(data, marks[id]) {
			return true
		}
	}
	return false
}

// period is the time within which messages were stored, without a bound where one is zero.
type period struct{ since, until time.Time }

// search calls look with each message of a filter, newest first, until all wanted deliveries are found.
func (f *finder) search(ctx context.Context, stream, filter string, p period, look func(*jetstream.RawStreamMsg)) error {
	w, err := f.reads.walker(ctx, stream, f.namespace, filter)
	if err != nil {
		return err
	}
	w.Since, w.Until = p.since, p.until
	return search(ctx, &w, f.budget, func(m *jetstream.RawStreamMsg) bool {
		look(m)
		return len(f.wanted) == 0
	})
}

// search walks until found returns true, or returns view.ErrNotFound.
func search(ctx context.Context, w *browse.Walker, budget *browse.Budget, found func(*jetstream.RawStreamMsg) bool) error {
	w.Budget = budget
	for {
		m, err := w.Prev(ctx)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return view.ErrNotFound
		case errors.Is(err, browse.ErrSpent):
			return fmt.Errorf("%w among the newest", view.ErrNotFound)
		case err != nil:
			return err
		case found(m):
			return nil
		}
	}
}

// whole returns the detail of a delivery of which the bus has the event as it was routed.
func whole(d *event.Delivery, v view.Delivery) view.DeliveryDetail {
	detail := view.DeliveryDetail{Delivery: v, Tries: d.Tries, Authored: d.Authored}
	if d.ID != "" {
		message := view.EventOf(&event.Record{Event: d.Event, Seq: d.Order})
		detail.Message = &message
	}
	return detail
}

// detail returns the detail of a sent delivery. Its message has only the metadata that the Alert's author wrote.
func (r *sent) detail(namespace, provider string, at time.Time) view.DeliveryDetail {
	d := view.DeliveryDetail{Delivery: r.view(namespace, provider, at), Tries: r.Tries, Authored: slices.Sorted(maps.Keys(r.Authored))}
	if n := len(d.Tries); n == 0 || d.Tries[n-1].Class != event.ClassSent {
		began := r.Sent.Add(-time.Duration(r.Took) * time.Millisecond)
		d.Tries = append(d.Tries, view.Attempt{Time: began, Millis: r.Took, Class: event.ClassSent})
	}
	if len(r.Authored) > 0 {
		d.Message = &view.Event{Metadata: r.Authored}
	}
	return d
}

// addMessage completes the message of a delivery by the event that it is about, as long as EVENTS has that event.
func (r *reads) addMessage(ctx context.Context, d *view.DeliveryDetail) error {
	had := d.Message
	record, err := r.eventAt(ctx, d.Namespace, d.Order)
	if err != nil && !errors.Is(err, view.ErrNotFound) {
		return err
	}
	o := view.Object{}
	if err == nil {
		o = view.Object{Kind: record.Event.InvolvedObject.Kind, Name: record.Event.InvolvedObject.Name}
	}
	if err != nil || !strings.EqualFold(o.String(), d.Object.String()) { // the streams were made anew since
		if d.State == view.StateSent {
			d.Message = nil
		}
		return nil
	}
	message := view.EventOf(record)
	d.Message = &message
	if had == nil {
		return nil
	}
	if d.State != view.StateSent { // it carries the event as the Alert made it
		message.Metadata = had.Metadata
		return nil
	}
	message.Metadata = maps.Clone(message.Metadata)
	if message.Metadata == nil {
		message.Metadata = map[string]string{}
	}
	maps.Copy(message.Metadata, had.Metadata)
	return nil
}
