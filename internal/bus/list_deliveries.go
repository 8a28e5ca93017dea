package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/bus/browse"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

// ListDeliveries returns deliveries of a namespace, newest first: those that were sent, those that were given up, and those that wait. A
// delivery that is being sent for the first time is in no stream yet and is not listed. The time of a waiting one is when it was last
// rescheduled.
func (b *Bus) ListDeliveries(ctx context.Context, namespace string, q view.Query) (view.Page[view.Delivery], error) {
	return reading(ctx, b.reads, "list deliveries", func(ctx context.Context) (page view.Page[view.Delivery], err error) {
		var order uint64
		if q.Event != "" {
			r, err := b.reads.findEvent(ctx, namespace, q.Event)
			if errors.Is(err, view.ErrNotFound) {
				return view.Page[view.Delivery]{Items: []view.Delivery{}}, nil
			}
			if err != nil {
				return page, err
			}
			order = r.Seq
			if accepted := r.Accepted.Add(-browse.MaxSkew); q.Since.Before(accepted) { // nothing was sent before
				q.Since = accepted
			}
		}
		list, err := b.deliveries(ctx, namespace, q, order)
		if err != nil {
			return page, err
		}
		return list.Page(ctx, q)
	})
}

// deliveries returns the list of a namespace's deliveries as a query selects them. If order is not 0, it has those of one event alone.
func (b *Bus) deliveries(
	ctx context.Context, namespace string, q view.Query, order uint64,
) (*browse.List[view.Delivery], error) {
	provider := anyToken
	if q.Provider != "" {
		provider = token(q.Provider)
	}
	list := &browse.List[view.Delivery]{
		Name: "deliveries " + namespace, Take: func(d view.Delivery) bool { return d.SelectedBy(&q) && (order == 0 || order == d.Order) },
		Time: view.Delivery.At, ID: func(d view.Delivery) string { return d.ID },
	}
	for _, s := range []struct {
		state          view.State
		stream, filter string
		decode         func(*jetstream.RawStreamMsg) []view.Delivery
	}{
		{view.StateSent, streamHistory, historyFilter(namespace, provider), sentViews},
		{view.StateDead, streamDeadLetters, deadFilter(namespace, provider), deadViews},
		{view.StatePending, streamDeliveries, waitingFilter(namespace, provider), pendingViews},
	} {
		if q.State != "" && q.State != s.state {
			s.filter = ""
		}
		source := &browse.Source[view.Delivery]{Decode: s.decode}
		var err error
		if source.Walker, err = b.reads.walker(ctx, s.stream, namespace, s.filter); err != nil {
			return nil, err
		}
		list.Sources = append(list.Sources, source)
	}
	return list, nil
}

// The filters of a namespace's deliveries to a Provider, which is a token or anyToken.
func historyFilter(namespace, provider string) string {
	return prefixHistory + token(namespace) + "." + provider
}

func deadFilter(namespace, provider string) string {
	return prefixDead + token(namespace) + "." + provider
}

func waitingFilter(namespace, provider string) string {
	return anyDelivery + anyToken + "." + token(namespace) + "." + provider + "." + everythingElse
}

func sentViews(m *jetstream.RawStreamMsg) []view.Delivery {
	namespace, provider := namespaceOf(m.Subject), providerOf(m.Subject)
	var views []view.Delivery
	for _, r := range sentRecords(m.Data) {
		views = append(views, r.view(namespace, provider, m.Time))
	}
	return views
}

func deadViews(m *jetstream.RawStreamMsg) []view.Delivery { return []view.Delivery{deadView(m)} }

// deadView returns the view of a dead letter. Of a message that could not be read it has only the ID, the namespace and the Provider.
func deadView(m *jetstream.RawStreamMsg) view.Delivery {
	d, err := decodeDelivery(asMsg(m))
	if err != nil {
		d = event.Delivery{ID: header(m.Header, headerID), Namespace: namespaceOf(m.Subject), Provider: providerOf(m.Subject)}
		if d.ID == "" {
			d.ID = fmt.Sprintf("unread-%d", m.Sequence)
		}
	}
	v := deliveryView(&d)
	v.State, v.Time, v.Seq = view.StateDead, m.Time, m.Sequence
	v.Failure, v.Class = header(m.Header, headerReason), header(m.Header, headerLabel)
	return v
}

func pendingViews(m *jetstream.RawStreamMsg) []view.Delivery {
	d, err := decodeDelivery(asMsg(m))
	if err != nil {
		return nil // it becomes a dead letter
	}
	return []view.Delivery{pendingView(&d, m)}
}

func pendingView(d *event.Delivery, m *jetstream.RawStreamMsg) view.Delivery {
	v := deliveryView(d)
	v.State, v.Time = view.StatePending, m.Time
	if at, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(m.Header.Get(headerSchedule), scheduleAt)); err == nil {
		v.Next = at
	}
	return v
}

// deliveryView returns the view of a delivery that was not sent, without its state.
func deliveryView(d *event.Delivery) view.Delivery {
	v := view.Delivery{
		ID: d.ID, Namespace: d.Namespace, Alert: d.Alert, Provider: d.Provider,
		Object: view.Object{Kind: d.Event.InvolvedObject.Kind, Name: d.Event.InvolvedObject.Name},
		Reason: d.Event.Reason, Severity: d.Event.Severity, Routed: d.Routed, Order: d.Order, Attempts: d.Attempts, Replays: d.Replays,
		Failure: d.LastError,
	}
	if n := len(d.Tries); n > 0 {
		v.Class = d.Tries[n-1].Class
	}
	return v
}

// providerOf returns the Provider that a subject of HISTORY or DEADLETTERS names.
func providerOf(subject string) string {
	t := strings.Split(subject, ".")
	if len(t) < historyLength {
		return ""
	}
	provider, err := untoken(t[historyLength-1])
	if err != nil {
		return ""
	}
	return provider
}
