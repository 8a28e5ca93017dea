package browse

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event/view"
)

// The bounds of the work for one page.
const (
	pageMessages = 20_000
	pageBytes    = 24 << 20
	pageRequests = 4000
	pageTime     = 2 * time.Second
)

// Source is a stream that a list is made of.
type Source[T any] struct {
	Walker
	// Decode returns the items of a message, oldest first.
	Decode func(*jetstream.RawStreamMsg) []T
	// Late is the longest time from an item's time until its message is stored.
	Late time.Duration
}

// List is made of the messages of several streams, each in the order of its items' times.
type List[T any] struct {
	// Name distinguishes the list from others, its namespace included: a cursor is good for one list.
	Name string
	// Time and ID return the time and the identity of an item. Of several items of one ID in one page, the newest is listed.
	Time func(T) time.Time
	ID   func(T) string
	// Take reports whether a query selects an item, by all its fields except its time.
	Take func(T) bool
	// Sources are always the same ones in the same order. A source with an empty Filter is left out of a page.
	Sources []*Source[T]
}

// reading is the state of a source while a page is made.
type reading[T any] struct {
	source *Source[T]
	// items are the items of the message read last that were not listed, oldest first, and place is their place.
	items []T
	place Place
	ended bool
}

// Page returns the page of a query.
func (l *List[T]) Page(ctx context.Context, q view.Query) (view.Page[T], error) {
	ctx, cancel := context.WithTimeout(ctx, 2*pageTime)
	defer cancel()
	return l.page(ctx, q, &Budget{Messages: pageMessages, Bytes: pageBytes, Requests: pageRequests, Until: time.Now().Add(pageTime)})
}

func (l *List[T]) page(ctx context.Context, q view.Query, budget *Budget) (page view.Page[T], err error) {
	places, err := decodeCursor(l.Name, q.Cursor, len(l.Sources))
	if err != nil {
		return page, err
	}
	limit := q.Limit
	if limit <= 0 {
		limit = view.DefaultLimit
	}
	limit = min(limit, view.MaxLimit)
	readings := make([]*reading[T], len(l.Sources))
	for i, s := range l.Sources {
		readings[i] = s.open(places[i], budget, q)
	}
	page.Items = []T{}
	seen := map[string]bool{}
	for len(page.Items) < limit {
		r, err := l.newest(ctx, readings)
		if errors.Is(err, ErrSpent) {
			break
		}
		if err != nil {
			return view.Page[T]{}, err
		}
		if r == nil {
			return page, nil
		}
		item := r.pop()
		at := l.Time(item)
		if !q.Since.IsZero() && at.Before(q.Since) || !q.Until.IsZero() && !at.Before(q.Until) || !l.Take(item) || seen[l.ID(item)] {
			continue
		}
		seen[l.ID(item)] = true
		page.Items = append(page.Items, item)
	}
	page.Next = l.next(readings)
	return page, nil
}

// next returns the cursor behind the listed items, empty when the list has ended.
func (l *List[T]) next(readings []*reading[T]) string {
	places, more := make([]Place, len(readings)), false
	for i, r := range readings {
		places[i] = r.here()
		more = more || !r.ended
	}
	if !more {
		return ""
	}
	return l.Cursor(places...)
}

// Cursor returns the cursor of a place in each of the list's streams.
func (l *List[T]) Cursor(places ...Place) string { return encodeCursor(l.Name, places) }

// newest returns the source whose next item is the newest, nil when no source has another item.
func (l *List[T]) newest(ctx context.Context, readings []*reading[T]) (newest *reading[T], err error) {
	for _, r := range readings {
		if err := r.fill(ctx); err != nil {
			return nil, err
		}
		if r.ended {
			continue
		}
		if newest == nil || l.Time(r.last()).After(l.Time(newest.last())) {
			newest = r
		}
	}
	return newest, nil
}

// open begins to read a source at a place.
func (s *Source[T]) open(p Place, budget *Budget, q view.Query) *reading[T] {
	r := &reading[T]{source: s, place: p}
	if s.Filter == "" {
		r.ended = true
		return r
	}
	s.Budget, s.Below, s.Since = budget, p.Below, q.Since
	if !q.Until.IsZero() {
		s.Until = q.Until.Add(s.Late)
	}
	if p.Rest > 0 && p.Below < noSequence {
		s.Below = p.Below + 1 // some of that message's items are not yet listed
	}
	return r
}

// noSequence is beyond every sequence of a stream.
const noSequence = 1 << 63

// fill reads the next message that has items, unless items are left.
func (r *reading[T]) fill(ctx context.Context) error {
	for len(r.items) == 0 && !r.ended {
		m, err := r.source.Prev(ctx)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			r.ended, r.place = true, Place{Below: 1}
			return nil
		case err != nil:
			// Unless it was removed, a message of which some items are left was found.
			if errors.Is(err, ErrSpent) {
				r.place = Place{Below: r.source.Below}
			}
			return err
		}
		r.items = r.source.Decode(m)
		if rest := r.place.Rest; rest > 0 && m.Sequence == r.place.Below {
			r.items = r.items[:min(uint64(len(r.items)), rest)]
		}
		r.place = Place{Below: m.Sequence}
	}
	return nil
}

func (r *reading[T]) last() T { return r.items[len(r.items)-1] }

func (r *reading[T]) pop() T {
	item := r.last()
	r.items = r.items[:len(r.items)-1]
	return item
}

// here returns the place where the list resumes.
func (r *reading[T]) here() Place {
	p := r.place
	p.Rest = max(p.Rest, uint64(len(r.items)))
	return p
}
