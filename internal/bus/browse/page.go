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

// MaxSkew is how far the clock of a replica, by which an item has its time, may differ from the server's, by which messages are stored.
const MaxSkew = time.Minute

// Source is a stream that a list is made of.
type Source[T any] struct {
	Walker
	// Decode returns the items of a message, oldest first.
	Decode func(*jetstream.RawStreamMsg) []T
	// Late is the longest time from an item's time until its message is stored, by one clock.
	Late time.Duration

	// items are the items of the message read last that were not listed, oldest first, and place is their place.
	items []T
	place Place
	ended bool
}

// List is made of the messages of several streams, each in the order of its items' times. It is used for one page.
type List[T any] struct {
	// Name distinguishes the list from others, its namespace included: a cursor is good for one list.
	Name string
	// Time returns the time of an item, ID its identity, nil if items have none. Of several items of one ID in one page, the newest is listed.
	Time func(T) time.Time
	ID   func(T) string
	// Take reports whether a query selects an item, by all its fields except its time.
	Take func(T) bool
	// Sources are always the same ones in the same order. A source with an empty Filter is left out of a page.
	Sources []*Source[T]
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
	for i, s := range l.Sources {
		s.open(places[i], budget, q)
	}
	page.Items = []T{}
	seen := map[string]bool{}
	for len(page.Items) < limit {
		s, err := l.newest(ctx)
		if errors.Is(err, ErrSpent) || errors.Is(err, context.DeadlineExceeded) && len(page.Items) > 0 {
			break
		}
		if err != nil {
			return view.Page[T]{}, err
		}
		if s == nil {
			return page, nil
		}
		item := s.pop()
		at := l.Time(item)
		if !q.Since.IsZero() && at.Before(q.Since) || !q.Until.IsZero() && !at.Before(q.Until) || !l.Take(item) {
			continue
		}
		if l.ID != nil {
			if seen[l.ID(item)] {
				continue
			}
			seen[l.ID(item)] = true
		}
		page.Items = append(page.Items, item)
	}
	page.Next = l.next()
	return page, nil
}

// next returns the cursor behind the listed items, empty when the list has ended.
func (l *List[T]) next() string {
	places, more := make([]Place, len(l.Sources)), false
	for i, s := range l.Sources {
		places[i] = s.here()
		more = more || !s.ended
	}
	if !more {
		return ""
	}
	return l.Cursor(places...)
}

// Cursor returns the cursor of a place in each of the list's streams.
func (l *List[T]) Cursor(places ...Place) string { return encodeCursor(l.Name, places) }

// newest returns the source whose next item is the newest, nil when no source has another item.
func (l *List[T]) newest(ctx context.Context) (newest *Source[T], err error) {
	for _, s := range l.Sources {
		if err := s.fill(ctx); err != nil {
			return nil, err
		}
		if s.ended {
			continue
		}
		if newest == nil || l.Time(s.last()).After(l.Time(newest.last())) {
			newest = s
		}
	}
	return newest, nil
}

// open begins to read a source at a place.
func (s *Source[T]) open(p Place, budget *Budget, q view.Query) {
	s.place, s.ended = p, s.Filter == ""
	s.Budget, s.Below = budget, p.Below
	if !q.Since.IsZero() {
		s.Since = q.Since.Add(-MaxSkew)
	}
	if !q.Until.IsZero() {
		s.Until = q.Until.Add(s.Late + MaxSkew)
	}
	if p.Rest > 0 && p.Below < noSequence {
		s.Below = p.Below + 1 // some of that message's items are not yet listed
	}
}

// noSequence is beyond every sequence of a stream.
const noSequence = 1 << 63

// fill reads the next message that has items, unless items are left.
func (s *Source[T]) fill(ctx context.Context) error {
	for len(s.items) == 0 && !s.ended {
		m, err := s.Prev(ctx)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			s.ended, s.place = true, Place{Below: 1}
			return nil
		case err != nil:
			// Unless it was removed, a message of which some items are left was found.
			if errors.Is(err, ErrSpent) {
				s.place = Place{Below: s.Below}
			}
			return err
		}
		s.items = s.Decode(m)
		if rest := s.place.Rest; rest > 0 && m.Sequence == s.place.Below {
			s.items = s.items[:min(uint64(len(s.items)), rest)]
		}
		s.place = Place{Below: m.Sequence}
	}
	return nil
}

func (s *Source[T]) last() T { return s.items[len(s.items)-1] }

func (s *Source[T]) pop() T {
	item := s.last()
	s.items = s.items[:len(s.items)-1]
	return item
}

// here returns the place where the list resumes.
func (s *Source[T]) here() Place {
	p := s.place
	p.Rest = max(p.Rest, uint64(len(s.items)))
	return p
}
