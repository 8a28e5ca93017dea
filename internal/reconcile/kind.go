package reconcile

import (
	"context"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"notifier/internal/event/view"
	"notifier/internal/reconcile/kube"
)

// kindOf has the parts of one kind's controller: the cache, the queue that compiles, and the queue that writes status.
type kindOf[T kube.Object] struct {
	*Reconciler
	statusOptions[T]
	name         string
	resource     kube.Resource[T]
	objects      *kube.Informer[T]
	verdicts     *verdicts
	compileQueue *kube.Controller[kube.Key]
	// named is done when the first list has been enqueued for compiling.
	named cache.DoneChecker

	// askQueue is nil for Receivers, which request nothing.
	askQueue *kube.Controller[kube.Key]

	statusQueue *kube.Controller[kube.Key]
	writer      *kube.StatusWriter[T]

	mu sync.Mutex
	// shown has the objects whose former conditions are not those of their status. Of a kind with status these are few, but for a start.
	shown map[kube.Key]shownOf
}

// shownOf is what the owner of the object with a UID was told before the next reconcile.
type shownOf struct {
	uid types.UID
	// found says that the object existed when this term began and has not been reconciled since. A first good verdict on it causes no Event:
	// else an installation would cause thousands.
	found bool
	// conditions, unless nil, are those that were told: of an object of a kind without status, or one whose status may have been written
	// without an answer, and without an Event.
	conditions []metav1.Condition
}

// anyKind is a kindOf of any kind, for what is done with each of the three.
type anyKind interface {
	// allCompiled closes when every object that was present at start is compiled.
	allCompiled() <-chan struct{}
	runStatus(context.Context)
	// begin begins a term of leading, before any write. enqueueAll follows it.
	begin()
	enqueueAll()
	// recompile and restate enqueue an object for compiling, and for writing its status.
	recompile(kube.Key)
	restate(kube.Key)
	// keysIn returns the keys of all objects, or of those in a namespace.
	keysIn(namespace string) []kube.Key
	// namespaces returns the namespaces that have any, in no order.
	namespaces() []string
	get(kube.Key) (kube.Object, bool)
	healthIn(namespace string) []view.Health
}

// newKind makes the cache and adds the kind to r. The caller then calls wire. A changed verdict enqueues the status.
func newKind[T kube.Object](r *Reconciler, name string, resource kube.Resource[T], ix kube.Indexers[T]) *kindOf[T] {
	objects := kube.NewInformer(resource, r.options.Namespace, ix, r.log.With("kind", name))
	k := &kindOf[T]{
		Reconciler: r, name: name, resource: resource, objects: objects, writer: kube.NewStatusWriter(resource),
		shown: map[kube.Key]shownOf{},
	}
	k.verdicts = newVerdicts(k.restate)
	r.kinds[name] = k
	return k
}

// compiler has the functions by which the objects of a kind are compiled.
type compiler[T kube.Object] struct {
	// keys returns the keys to compile when an object is made, changed or deleted.
	keys func(T) []kube.Key
	// compile compiles an object and stores its verdict.
	compile func(context.Context, kube.Key) error
	// refuse takes an object out of use, with its verdict.
	refuse func(T, fault)
}

// wire makes the queues and feeds them. A change of status alone, such as our own write, is enqueued for status only and compiles nothing.
func (k *kindOf[T]) wire(by compiler[T], status statusOptions[T]) {
	k.statusOptions = status
	queue := func(
		stage string, workers, each int, delay time.Duration, reconcile func(context.Context, kube.Key) error,
	) *kube.Controller[kube.Key] {
		c := kube.NewController(kube.ControllerOptions[kube.Key]{
			Workers: workers, Each: each, Parts: kube.Key.Parts, Delay: delay, Reconcile: reconcile,
			Observe: k.metrics.observe(k.name, stage), Log: k.log.With("kind", k.name, "stage", stage),
		})
		k.metrics.depth(k.name, stage, c.Len)
		return c
	}
	k.compileQueue = queue(stageCompile, compileWorkers, 0, 0, k.decided(by))
	k.statusQueue = queue(stageStatus, k.options.StatusWorkers, (k.options.StatusWorkers+1)/2, statusDelay, k.writeStatus)
	k.named = kube.Watch(k.compileQueue, k.objects, by.keys, specChanged[T])
	kube.Watch(k.statusQueue, k.objects, kube.Self[T], nil)
}

// decided returns the function that compiles an object, and refuses it if that ends in a panic: else nothing would be known about it, and all
// that concerns it would wait for its compile. The panic goes on to the queue, which logs it.
func (k *kindOf[T]) decided(by compiler[T]) func(context.Context, kube.Key) error {
	return func(ctx context.Context, key kube.Key) error {
		ended := false
		defer func() {
			if object, ok := k.objects.Get(key); ok && !ended {
				k.verdicts.put(object, refused(object, unexpected())) // before the next line, which may end in the same panic
				by.refuse(object, unexpected())
			}
		}()
		err := by.compile(ctx, key)
		ended = true
		return err
	}
}

// specChanged reports whether an update may change the compiled object. Labels count for spec.commitStatusExpr, which may read them.
func specChanged[T kube.Object](was, is T) bool {
	return was.GetGeneration() != is.GetGeneration() ||
		(was.GetDeletionTimestamp() == nil) != (is.GetDeletionTimestamp() == nil) ||
		!maps.Equal(was.GetAnnotations(), is.GetAnnotations()) || !maps.Equal(was.GetLabels(), is.GetLabels()) || !kube.SameSpec(was, is)
}

// run starts the cache in the group. It starts the compile queue once the checkers are done.
func (k *kindOf[T]) run(ctx context.Context, group *sync.WaitGroup, first []cache.DoneChecker) {
	group.Go(func() { k.objects.Run(ctx) })
	group.Go(func() {
		if cache.WaitFor(ctx, "", first...) {
			k.compileQueue.Run(ctx)
		}
	})
}

func (k *kindOf[T]) runStatus(ctx context.Context) { k.statusQueue.Run(ctx) }

func (k *kindOf[T]) allCompiled() <-chan struct{} { return k.compileQueue.Synced() }

func (k *kindOf[T]) enqueueAll() {
	for _, key := range k.keysIn("") {
		k.restate(key)
	}
}

func (k *kindOf[T]) recompile(key kube.Key) { k.compileQueue.Enqueue(key) }

func (k *kindOf[T]) restate(key kube.Key) { k.statusQueue.Enqueue(key) }

func (k *kindOf[T]) keysIn(namespace string) []kube.Key {
	objects := k.objects.All()
	if namespace != "" {
		objects = k.objects.InNamespace(namespace)
	}
	keys := make([]kube.Key, len(objects))
	for i, o := range objects {
		keys[i] = kube.KeyOf(o)
	}
	return keys
}

func (k *kindOf[T]) namespaces() []string { return k.objects.Namespaces() }

func (k *kindOf[T]) get(key kube.Key) (kube.Object, bool) {
	o, ok := k.objects.Get(key)
	return o, ok
}

// compiledAs reports whether an object is compiled as it is, and no other of its name.
func (k *kindOf[T]) compiledAs(o kube.Object) bool {
	v, ok := k.verdicts.on(o)
	return ok && v.generation == o.GetGeneration() && !v.unread()
}
