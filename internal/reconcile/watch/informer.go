package watch

import (
	"context"
	"errors"
	"maps"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// informer is the running informer of one kind, on one version of one definition.
type informer struct {
	kube.Cache[*object]
	kind       *Kind
	resource   schema.GroupVersionResource
	definition string // its UID
	// synced is done when the event handler has seen the first list.
	synced cache.DoneChecker
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func (in *informer) hasSynced() bool { return cache.IsDone(in.synced) }

// get returns the cached object, nil if there is none.
func (in *informer) get(namespace, name string) *object {
	o, _ := in.Get(kube.Key{Namespace: namespace, Name: name})
	return o
}

// start runs an informer for the kind until ctx ends or it is stopped.
func (w *Watcher) start(ctx context.Context, kind *Kind, resource schema.GroupVersionResource, definition string) {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	objects := cache.NewSharedIndexInformer(w.opts.Objects.ListerWatcher(kind, resource, w.opts.Namespace), nil, 0, indexers)
	in := &informer{Cache: kube.NewCache[*object](objects), kind: kind, resource: resource, definition: definition}
	failed := objects.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { w.watchFailed(kind, err) })
	registration, err := objects.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if !initial || !w.starts() { // the kind was installed, or became readable, after the start
				w.changed(nil, obj)
			}
			w.observed(in, obj)
		},
		UpdateFunc: func(was, obj any) {
			w.changed(was, obj)
			w.observed(in, obj)
		},
		DeleteFunc: func(obj any) { w.deleted(in, obj) },
	})
	if err = errors.Join(failed, err); err != nil {
		panic(err) // their only errors are that the informer has started, or stopped
	}
	in.synced = registration.HasSyncedChecker()
	ctx, in.cancel = context.WithCancel(ctx)
	w.mu.Lock()
	w.running[kind] = in
	w.mu.Unlock()
	in.wg.Go(func() { objects.RunWithContext(ctx) })
	in.wg.Go(func() {
		if cache.WaitFor(ctx, "", in.synced) {
			w.markRead()
			w.publisherOf(func(t *publisher) { t.kindChanged(kind) })
		}
	})
	w.log.Info("watching kind", "kind", kind.Kind, "version", resource.Version)
}

// stop ends the kind's informer, if there is one, and waits for it.
func (w *Watcher) stop(kind *Kind) {
	w.mu.Lock()
	in := w.running[kind]
	delete(w.running, kind)
	w.mu.Unlock()
	if in == nil {
		return
	}
	w.publisherOf(func(t *publisher) { t.kindStopped(kind) })
	in.cancel()
	in.wg.Wait()
	w.log.Info("stopped watching kind", "kind", kind.Kind, "version", in.resource.Version)
}

func (w *Watcher) stopAll() {
	for _, kind := range kinds {
		w.stop(kind)
	}
}

// watchFailed logs the reason of a failed list or watch. After a 404 the kind is examined again: the definition may have dropped the
// version.
func (w *Watcher) watchFailed(kind *Kind, err error) {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return // the ordinary end of an old watch
	}
	w.log.Warn("watch failed, it will be tried again", "kind", kind.Kind, "error", err)
	if apierrors.IsNotFound(err) {
		w.queue.EnqueueAfter(kind, minDiscoveryPause)
	}
}

// changed reports an object whose labels changed. A nil was stands for a new object.
func (w *Watcher) changed(was, is any) {
	before, _ := was.(*object)
	if o, ok := is.(*object); ok && (before == nil || !maps.Equal(before.Labels, o.Labels)) {
		w.opts.Changed(o.Namespace)
	}
}

func (w *Watcher) observed(in *informer, obj any) {
	if o, ok := obj.(*object); ok {
		w.publisherOf(func(t *publisher) { t.observe(in, o) })
	}
}

func (w *Watcher) deleted(in *informer, obj any) {
	if o, ok := kube.Unwrap[*object](obj); ok {
		w.opts.Changed(o.Namespace)
		w.publisherOf(func(t *publisher) { t.forget(in, o.Namespace, o.Name) })
	}
}

// publisherOf calls f with the publisher if this replica leads.
func (w *Watcher) publisherOf(f func(*publisher)) {
	if t := w.leading.Load(); t != nil {
		f(t)
	}
}

func (w *Watcher) informerOf(kind *Kind) *informer {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.running[kind]
}

// Lookup returns the cached facts about an object. The labels must not be changed.
func (w *Watcher) Lookup(kind, namespace, name string) (event.Object, bool) {
	in := w.informerOf(kindNamed(kind))
	if in == nil {
		return event.Object{}, false
	}
	o := in.get(namespace, name)
	if o == nil {
		return event.Object{}, false
	}
	return o.known(), true
}

// absent reports whether the cluster has no definition of the kind.
func (w *Watcher) absent(kind *Kind) bool {
	if !cache.IsDone(w.crdsSynced) {
		return false
	}
	_, defined := w.definition(kind)
	return !defined
}
