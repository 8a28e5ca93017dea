package command

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/internal/api/client"
	"notifier/internal/event/view"
)

// maxWatched bounds the namespaces that are watched at a time: the API allows a user no more.
const maxWatched = 16

// following shows the new items of a list.
type following[T any] struct {
	session *session
	columns []column[T]
	// listed is closed once the listed items are shown. New items wait for it.
	listed chan struct{}

	mu sync.Mutex
	// seen has the listed items, in JSON, except those that a watch has sent since.
	seen map[string]bool
}

// watched shows the items of a list, oldest first, and then new items until ctx ends or the API refuses.
func watched[T view.Item](ctx context.Context, s *session, of view.List, columns []column[T]) error {
	namespaces, err := s.namespaces(ctx)
	switch n := len(namespaces); {
	case err != nil:
		return err
	case n == 0:
		return nothing(s)
	case n > maxWatched:
		return fmt.Errorf("--watch takes at most %d namespaces, and you may list %d: name one with -n", maxWatched, n)
	}
	ctx, cancel := context.WithCancel(ctx)
	watches, ctx := errgroup.WithContext(ctx)
	defer func() {
		cancel()
		_ = watches.Wait() // the reason is known, or is the cancellation
	}()
	f := &following[T]{session: s, columns: columns, listed: make(chan struct{}), seen: map[string]bool{}}
	opened := make(chan struct{}, len(namespaces))
	for _, namespace := range namespaces {
		watches.Go(func() error { return inNamespace(namespace, f.watch(ctx, namespace, of, opened)) })
	}
	for range namespaces { // all have begun before the list, so that no item between the two is missed
		select {
		case <-opened:
		case <-ctx.Done():
			return watches.Wait()
		}
	}
	items, err := listed[T](ctx, s, namespaces, of)
	if err != nil {
		return err
	}
	if err := show(s, columns, items); err != nil {
		return err
	}
	for _, item := range items {
		f.seen[keyOf(item)] = true
	}
	close(f.listed)
	return watches.Wait()
}

// watch watches one namespace until the watches end. It sends to opened once, when it has begun.
func (f *following[T]) watch(ctx context.Context, namespace string, of view.List, opened chan<- struct{}) error {
	q := f.session.query
	q.Since, q.Until, q.Limit = time.Time{}, time.Time{}, 0
	var once sync.Once
	return client.Follow(ctx, f.session.api, client.Watch{
		Namespace: namespace, List: of, Query: q,
		Opened:      func() { once.Do(func() { opened <- struct{}{} }) },
		Interrupted: func(why error) { f.note("namespace " + namespace + ": " + why.Error()) },
	}, func(item T) error { return f.item(ctx, item) })
}

// item shows an item, unless it was listed.
func (f *following[T]) item(ctx context.Context, item T) error {
	select {
	case <-f.listed:
	case <-ctx.Done():
		return ctx.Err()
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

// keyOf returns a text that is equal for equal items.
func keyOf(item any) string {
	text, _ := json.Marshal(item) // an item from JSON can be encoded
	return string(text)
}
