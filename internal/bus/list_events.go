package bus

import (
	"context"
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/bus/browse"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

// ListEvents returns events of a namespace's objects, newest first, as long as EVENTS keeps them.
func (b *Bus) ListEvents(ctx context.Context, namespace string, q view.Query) (view.Page[view.Event], error) {
	return reading(ctx, b.reads, "list events", func(ctx context.Context) (page view.Page[view.Event], err error) {
		source := &browse.Source[view.Event]{Decode: eventViews, Late: publishTimeout}
		if source.Walker, err = b.reads.walker(ctx, streamEvents, namespace, eventFilter(namespace, q.Object)); err != nil {
			return page, err
		}
		list := browse.List[view.Event]{
			Name: "events " + namespace, Sources: []*browse.Source[view.Event]{source},
			Time: view.Event.At, ID: func(e view.Event) string { return e.ID },
			Take: func(e view.Event) bool { return e.SelectedBy(&q) },
		}
		return list.Page(ctx, q)
	})
}

// eventFilter returns the filter of a namespace's events, or of one object's if object is "kind/name" with a name in lower case.
func eventFilter(namespace, object string) string {
	if _, name, ok := strings.Cut(object, "/"); ok && name != "" && name == strings.ToLower(name) {
		return prefixEvents + token(namespace) + "." + anyToken + "." + token(name)
	}
	return prefixEvents + token(namespace) + "." + everythingElse
}

func eventViews(m *jetstream.RawStreamMsg) []view.Event {
	r, err := recordOf(m)
	if err != nil {
		return nil // it becomes a dead letter
	}
	return []view.Event{view.EventOf(r)}
}

func recordOf(m *jetstream.RawStreamMsg) (*event.Record, error) {
	r, err := decodeRecord(asMsg(m))
	if err != nil {
		return nil, err
	}
	r.Seq = m.Sequence
	if r.Accepted.IsZero() {
		r.Accepted = m.Time
	}
	return r, nil
}

// FindEvent returns the event of an ID of a namespace, the newest of several, or view.ErrNotFound.
func (b *Bus) FindEvent(ctx context.Context, namespace, id string) (*event.Record, error) {
	return reading(ctx, b.reads, "find event", func(ctx context.Context) (*event.Record, error) {
		return b.reads.findEvent(ctx, namespace, id)
	})
}

func (r *reads) findEvent(ctx context.Context, namespace, id string) (found *event.Record, err error) {
	if id == "" || len(id) > maxID {
		return nil, view.ErrNotFound
	}
	w, err := r.walker(ctx, streamEvents, namespace, eventFilter(namespace, ""))
	if err != nil {
		return nil, err
	}
	err = search(ctx, &w, searchBudget(), func(m *jetstream.RawStreamMsg) bool {
		if header(m.Header, nats.MsgIdHdr) != id {
			return false
		}
		record, err := recordOf(m)
		found = record
		return err == nil
	})
	return found, err
}

// EventAt returns the event of a namespace at a place in the stream of events, or view.ErrNotFound.
func (b *Bus) EventAt(ctx context.Context, namespace string, order uint64) (*event.Record, error) {
	return reading(ctx, b.reads, "event at its place", func(ctx context.Context) (*event.Record, error) {
		return b.reads.eventAt(ctx, namespace, order)
	})
}

func (r *reads) eventAt(ctx context.Context, namespace string, order uint64) (*event.Record, error) {
	stream, err := r.stream(ctx, streamEvents)
	if err != nil {
		return nil, err
	}
	if order == 0 {
		return nil, view.ErrNotFound
	}
	m, err := stream.GetMsg(ctx, order)
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && namespaceOf(m.Subject) != namespace {
		return nil, view.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	record, err := recordOf(m)
	if err != nil {
		return nil, view.ErrNotFound
	}
	return record, nil
}
