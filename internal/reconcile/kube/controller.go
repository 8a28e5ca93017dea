package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"notifier/internal/fair"
)

// Result is the result of one reconcile, as a label for metrics.
type Result string

// The ways in which a reconcile ends.
const (
	ResultOK        Result = "ok"
	ResultConflict  Result = "conflict"
	ResultRetry     Result = "retry"
	ResultPermanent Result = "permanent"
)

// Results returns all results.
func Results() []Result { return []Result{ResultOK, ResultConflict, ResultRetry, ResultPermanent} }

// ControllerOptions configure a Controller. All but Each, Free, Observe, Delay and the back-offs are required.
type ControllerOptions[K comparable] struct {
	// Workers is how many keys are reconciled concurrently.
	Workers int
	// Each is how many of those may be of one namespace; Workers when zero. It is for work that takes long for one namespace and not for others,
	// such as a write where an admission webhook selects the namespace and hangs. Free reports the keys that it does not bound; nil for none.
	Each int
	Free func(K) bool
	// Parts returns a key's namespace, by which keys take turns, and its name, for the log. For a Key it is Key.Parts.
	Parts func(K) (namespace, name string)
	// Reconcile brings the system in line with the object of one key, which may not exist.
	Reconcile func(ctx context.Context, key K) error
	// Delay is how long a key waits after Enqueue, so that simultaneous changes cause one reconcile; zero for no wait.
	Delay time.Duration
	// MinBackoff and MaxBackoff bound the pause before a failed key is retried; 250 ms and 1 min when zero.
	MinBackoff, MaxBackoff time.Duration
	// Observe is called after each reconcile.
	Observe func(result Result, took time.Duration)
	Log     *slog.Logger
}

// Controller reconciles the keys of a queue. Namespaces take turns, so that a namespace with many keys delays only itself.
type Controller[K comparable] struct {
	options ControllerOptions[K]
	synced  []cache.DoneChecker
	done    chan struct{}
	// lines bounds the lines about failures.
	lines  *fair.Lines
	places *places[K]

	mu sync.Mutex
	// queue is nil until the caches are synced.
	queue workqueue.TypedRateLimitingInterface[K]
	// initial has the keys that were enqueued before the queue existed and were not reconciled since, with their due times.
	initial map[K]time.Time
}

// NewController returns a controller without a source of keys.
func NewController[K comparable](o ControllerOptions[K]) *Controller[K] {
	o.MinBackoff = cmp.Or(o.MinBackoff, 250*time.Millisecond)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, time.Minute)
	if o.Observe == nil {
		o.Observe = func(Result, time.Duration) {}
	}
	return &Controller[K]{
		options: o, done: make(chan struct{}), lines: fair.NewLines(), places: newPlaces[K](o.Each), initial: map[K]time.Time{},
	}
}

// Watch enqueues the keys of every object of the informer that is added, changed or deleted. changed, if not nil, reports which changes
// count. Watch must be called before the informer and the controller run. The returned checker is done when the whole first list was
// enqueued.
func Watch[T Object, K comparable](c *Controller[K], in *Informer[T], keys func(T) []K, changed func(was, is T) bool) cache.DoneChecker {
	enqueue := func(o any) {
		if object, ok := Unwrap[T](o); ok {
			for _, k := range keys(object) {
				c.Enqueue(k)
			}
		}
	}
	registration, err := in.shared.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue,
		UpdateFunc: func(was, is any) {
			if same(was.(T), is.(T)) {
				return // a list after an outage repeats every object
			}
			if changed != nil && was.(T).GetUID() == is.(T).GetUID() && !changed(was.(T), is.(T)) {
				return
			}
			before := keys(was.(T))
			for _, k := range before {
				c.Enqueue(k)
			}
			for _, k := range keys(is.(T)) {
				if !slices.Contains(before, k) { // a worker may have begun with it, and would reconcile it twice
					c.Enqueue(k)
				}
			}
		},
		DeleteFunc: enqueue,
	})
	if err != nil {
		panic(err) // its only error is that the informer has stopped
	}
	// The registration's own checker, not the informer's: it means that the handler has seen the first list.
	synced := registration.HasSyncedChecker()
	c.synced = append(c.synced, synced)
	return synced
}

// same reports whether an update repeats the known version of an object. A definition that was replaced meanwhile may show more or less of it,
// and after a restore of the API server's store from a backup a version can be that of another edit, such as of an annotation.
func same(was, is Object) bool {
	return was.GetResourceVersion() != "" && was.GetResourceVersion() == is.GetResourceVersion() && reflect.DeepEqual(was, is)
}

// SameSpec reports whether two objects of a kind have the same spec. Their generations do not tell: it has one generation, and one version, under
// a definition that lacks some of its fields, and a restore of the API server's store from a backup gives a generation to another spec.
func SameSpec(a, b Object) bool { return reflect.DeepEqual(specOf(a), specOf(b)) }

func specOf(o Object) any { return reflect.ValueOf(o).Elem().FieldByName("Spec").Addr().Interface() }

// Unwrap returns the object that was passed to an informer's handler. A deletion that was missed while disconnected arrives as a
// tombstone with the last known state; no other code handles tombstones.
func Unwrap[T any](o any) (T, bool) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	object, ok := o.(T)
	return object, ok
}

// Self is the keys function of a controller's own kind.
func Self[T Object](o T) []Key { return []Key{KeyOf(o)} }

// Enqueue schedules a reconcile of the key after Options.Delay. It may be called at any time, also before Run.
func (c *Controller[K]) Enqueue(k K) { c.EnqueueAfter(k, c.options.Delay) }

// EnqueueAfter schedules a reconcile of the key after a pause.
func (c *Controller[K]) EnqueueAfter(k K, after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil {
		due := time.Now().Add(after)
		if before, known := c.initial[k]; !known || due.Before(before) {
			c.initial[k] = due
		}
		return
	}
	c.queue.AddAfter(k, after)
}

// Len returns the number of waiting keys.
func (c *Controller[K]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil {
		return len(c.initial)
	}
	return c.queue.Len() + c.places.waiting()
}

// Synced closes when every key that was enqueued before the start has been reconciled once, with success or a permanent failure. It
// does not wait for keys that failed with Isolated errors three times, or with Later.
func (c *Controller[K]) Synced() <-chan struct{} { return c.done }

// Run waits for the caches and then reconciles until ctx ends. It can be called once.
func (c *Controller[K]) Run(ctx context.Context) {
	if !cache.WaitFor(ctx, "", c.synced...) {
		return // ctx has ended
	}
	queue := c.open()
	defer queue.ShutDown()
	var wg sync.WaitGroup
	for range c.options.Workers {
		wg.Go(func() {
			for c.next(ctx, queue) {
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
	wg.Wait()
}

// open makes the queue and adds the keys that were enqueued before.
func (c *Controller[K]) open() workqueue.TypedRateLimitingInterface[K] {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[K](c.options.MinBackoff, c.options.MaxBackoff),
		workqueue.TypedRateLimitingQueueConfig[K]{DelayingQueue: newQueue(c.options.Parts)})
	for k, due := range c.initial {
		c.queue.AddAfter(k, time.Until(due))
	}
	if len(c.initial) == 0 {
		close(c.done)
	}
	return c.queue
}

// newQueue returns a queue in which the namespaces of keys take turns.
func newQueue[K comparable](parts func(K) (namespace, name string)) workqueue.TypedDelayingInterface[K] {
	turns := fair.NewQueue(func(k K) string {
		namespace, _ := parts(k)
		return namespace
	})
	return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{
		Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{Queue: turns}),
	})
}

// next reconciles one key and reports whether there may be another.
func (c *Controller[K]) next(ctx context.Context, queue workqueue.TypedRateLimitingInterface[K]) bool {
	k, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(k)
	namespace, name := c.options.Parts(k)
	if bounded := c.options.Each > 0 && (c.options.Free == nil || !c.options.Free(k)); bounded {
		if !c.places.enter(namespace, k) {
			return ctx.Err() == nil
		}
		defer c.places.leave(namespace, queue.Add)
	}
	start := time.Now()
	err := c.safely(ctx, k)
	result := resultOf(err)
	c.options.Observe(result, time.Since(start))
	if marked, _ := errors.AsType[markedError](err); marked.later > 0 {
		queue.AddAfter(k, marked.later)
		c.reconciled(k)
		return ctx.Err() == nil
	}
	switch result {
	case ResultOK, ResultPermanent:
		queue.Forget(k)
		c.reconciled(k)
	case ResultConflict, ResultRetry:
		queue.AddRateLimited(k)
		if IsIsolated(err) && queue.NumRequeues(k) >= isolatedAttempts {
			c.reconciled(k)
		}
	}
	if err != nil && result != ResultConflict && ctx.Err() == nil && !errors.Is(err, ErrNotYet) {
		if left, ok := c.lines.Admit(namespace); ok {
			c.options.Log.Warn("reconcile failed", "namespace", namespace, "name", name, "result", string(result), "error", err,
				"lines_left_out", left)
		}
	}
	return ctx.Err() == nil
}

// safely turns a panic into an error: an object that causes one must not stop the others.
func (c *Controller[K]) safely(ctx context.Context, k K) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Permanent(fmt.Errorf("panic (%T)\n%s", p, debug.Stack())) // its text may quote a Secret; the stack holds no values
		}
	}()
	return c.options.Reconcile(ctx, k)
}

func (c *Controller[K]) reconciled(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.initial[k]; !ok {
		return
	}
	delete(c.initial, k)
	if len(c.initial) == 0 {
		c.initial = nil // a map keeps the memory of all its former keys
		close(c.done)
	}
}

func resultOf(err error) Result {
	marked, _ := errors.AsType[markedError](err)
	switch {
	case err == nil:
		return ResultOK
	case apierrors.IsConflict(err):
		return ResultConflict
	case marked.permanent:
		return ResultPermanent
	default:
		return ResultRetry
	}
}

// markedError is an error of a key with what follows from it.
type markedError struct {
	error
	permanent, isolated bool
	// later, unless zero, is the pause after which the key is due.
	later time.Duration
}

func (e markedError) Unwrap() error { return e.error }

// Permanent marks an error that a retry would repeat.
func Permanent(err error) error { return markedError{error: err, permanent: true} }

// isolatedAttempts is how often a key may fail with an Isolated error before Synced no longer waits for it.
const isolatedAttempts = 3

// Isolated marks an error as the fault of its key alone: it is retried like any other, but Controller.Synced does not wait for it
// beyond the third attempt.
func Isolated(err error) error { return markedError{error: err, isolated: true} }

// IsIsolated reports whether err is marked as Isolated.
func IsIsolated(err error) bool {
	marked, _ := errors.AsType[markedError](err)
	return marked.isolated
}

// ErrNotYet is the error of a key that must be retried as after a failure, although there is no failure to log.
var ErrNotYet = errors.New("not yet")

// Later returns the error of a key that is not due yet. It is reconciled again after a pause and does not count as failed. Synced does
// not wait for it.
func Later(after time.Duration) error {
	return markedError{error: fmt.Errorf("its turn comes in %s", after), later: after}
}

// IsLater reports whether err is of a key that is not due yet.
func IsLater(err error) bool {
	marked, _ := errors.AsType[markedError](err)
	return marked.later > 0
}
