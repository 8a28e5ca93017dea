package kube

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
)

// Cache reads the cached objects of an informer. They are shared: copy before changing.
type Cache[T any] struct{ indexer cache.Indexer }

// NewCache returns the cache of an informer whose objects are of type T.
func NewCache[T any](in cache.SharedIndexInformer) Cache[T] { return Cache[T]{in.GetIndexer()} }

// Informer is a cache of one kind's objects that follows the cluster.
type Informer[T Object] struct {
	Cache[T]
	shared cache.SharedIndexInformer
	log    *slog.Logger
}

// Indexers are the indexes of an informer's objects, by name.
type Indexers[T Object] map[string]func(T) []string

// NewInformer returns the informer over a resource, in one namespace or, for the empty one, in all.
func NewInformer[T Object](r Resource[T], namespace string, indexers Indexers[T], log *slog.Logger) *Informer[T] {
	client := r.In(namespace)
	lw := &cache.ListWatch{ListWithContextFunc: client.List, WatchFuncWithContext: client.Watch}
	byName := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	for name, values := range indexers {
		byName[name] = func(o any) ([]string, error) { return values(o.(T)), nil }
	}
	var example T // only its type matters
	shared := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, ListFirst{}), example, 0, byName)
	i := &Informer[T]{NewCache[T](shared), shared, log}
	if err := errors.Join(shared.SetTransform(trim), shared.SetWatchErrorHandlerWithContext(i.watchError())); err != nil {
		panic(err) // their only error is that the informer has started
	}
	return i
}

// Run follows the cluster until ctx ends.
func (i *Informer[T]) Run(ctx context.Context) { i.shared.RunWithContext(ctx) }

// Synced closes when the cache has seen the whole of its first list.
func (i *Informer[T]) Synced() <-chan struct{} { return i.shared.HasSyncedChecker().Done() }

// Get returns the object with a key.
func (c Cache[T]) Get(k Key) (T, bool) {
	o, ok, err := c.indexer.GetByKey(k.String())
	if err != nil || !ok {
		var none T
		return none, false
	}
	return o.(T), true
}

// All returns all objects in no order.
func (c Cache[T]) All() []T { return typed[T](c.indexer.List()) }

// By returns the objects that have value under an index of the informer, in no order.
func (c Cache[T]) By(index, value string) []T {
	objects, err := c.indexer.ByIndex(index, value)
	if err != nil {
		return nil // an unknown index has no objects
	}
	return typed[T](objects)
}

// InNamespace returns the objects of a namespace in no order.
func (c Cache[T]) InNamespace(namespace string) []T { return c.By(cache.NamespaceIndex, namespace) }

// Namespaces returns the namespaces that have objects, in no order.
func (c Cache[T]) Namespaces() []string { return c.indexer.ListIndexFuncValues(cache.NamespaceIndex) }

func typed[T any](objects []any) []T {
	out := make([]T, len(objects))
	for i, o := range objects {
		out[i] = o.(T)
	}
	return out
}

// missingEvery is how often the log repeats that a kind is not served.
const missingEvery = time.Minute

// watchError returns a handler that logs the obstacle to a cache. The informer itself retries, at most 30 s later.
func (i *Informer[T]) watchError() cache.WatchErrorHandlerWithContext {
	var logged time.Time // the informer calls its handler from one goroutine
	return func(_ context.Context, _ *cache.Reflector, err error) {
		switch {
		case err == nil || errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		case apierrors.IsNotFound(err):
			if time.Since(logged) < missingEvery {
				return
			}
			logged = time.Now()
			i.log.Warn("kind is not served by the cluster, waiting for its custom resource definition")
		default:
			i.log.Warn("cannot follow the kind, trying again", "error", err)
		}
	}
}
