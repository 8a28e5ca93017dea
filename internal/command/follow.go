package command

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"notifier/internal/api/client"
	"notifier/internal/event/view"
)

// maxWatched bounds the namespaces that are watched at a time: the API allows a user no more.
const maxWatched = 16

// following has the watches of a list.
type following[T any] struct {
	session *session
	columns []column[T]
	ctx     context.Context
	cancel  context.CancelCauseFunc
	watches sync.WaitGroup
	// listed is closed once the listed items are shown. New items wait for it.
	listed chan struct{}

	mu sync.Mutex
	// seen has the listed items, in JSON, except those that a watch has sent since.
	seen map[string]bool
}

// follow begins to watch some namespaces. It returns once all watches have begun: items stored from then on will be shown.
func follow[T any](ctx context.Context, s *session, namespaces []string, of view.List, columns []column[T]) (*following[T], error) {
	if n := len(namespaces); n > maxWatched {
		return nil, fmt.Errorf("--watch takes at most %d namespaces, and you may list %d: name one with -n", maxWatched, n)
	}
	f := &following[T]{session: s, columns: columns, listed: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	opened := make(chan struct{}, len(namespaces))
	for _, namespace := range namespaces {
		f.watches.Go(func() { f.cancel(inNamespace(namespace, f.watch(namespace, of, opened))) })
	}
	for range namespaces {
		select {
		case <-opened:
		case <-f.ctx.Done():
			f.watches.Wait()
			return nil, f.cause()
		}
	}
	return f, nil
}

// watch watches one namespace until the watches end. It sends to opened once, when it has begun.
func (f *following[T]) watch(namespace string, of view.List, opened chan<- struct{}) error {
	q := f.session.query
	q.Since, q.Until, q.Limit = time.Time{}, time.Time{}, 0
	var once sync.Once
	return client.Follow(f.ctx, f.session.api, client.Watch{
		Namespace: namespace, List: of, Query: q,
		Opened:      func() { once.Do(func() { opened <- struct{}{} }) },
		Interrupted: func(why error) { f.note("namespace " + namespace + ": " + why.Error()) },
	}, f.item)
}

// item shows an item, unless it was listed.
func (f *following[T]) item(item T) error {
	select {
	case <-f.listed:
	case <-f.ctx.Done():
		return f.ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if key := keyOf(item); f.seen[key] {
		delete(f.seen, key)
		return nil
	}
	return showOne(f.session, f.columns, item)
}

func (f *following[T]) note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintln(f.session.notes, plain(text))
}

// show shows the new items beside the listed ones, until the watches end, and returns the reason.
func (f *following[T]) show(listed []T) error {
	f.seen = map[string]bool{}
	for _, item := range listed {
		f.seen[keyOf(item)] = true
	}
	close(f.listed)
	f.watches.Wait()
	return f.cause()
}

// end ends the watches.
func (f *following[T]) end() {
	f.cancel(nil)
	f.watches.Wait()
}

// cause returns the reason for the end of the watches.
func (f *following[T]) cause() error { return context.Cause(f.ctx) }

// keyOf returns a text that is equal for equal items.
func keyOf(item any) string {
	text, _ := json.Marshal(item) // an item from JSON can be encoded
	return string(text)
}
