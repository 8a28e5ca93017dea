package reconcile

import (
	"context"
	"maps"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"notifier/internal/reconcile/kube"
)

// kindOf has the parts of one kind's controller: the cache, the queue that compiles and the queue that writes status.
type kindOf[T subject, L runtime.Object] struct {
	name     string
	resource kube.Resource[T, L]
	objects  *kube.Informer[T]
	verdicts *verdicts
	compile  *kube.Controller[kube.Key]
	// named is done when the first list has been enqueued for compiling.
	named  cache.DoneChecker
	status *statusController[T, L]
}

// newKind makes the cache. The caller then calls wire and watch. decided is called with the key of each changed verdict.
func newKind[T subject, L runtime.Object](
	r *Reconciler, name string, resource kube.Resource[T, L], ix kube.Indexers[T], decided func(kube.Key),
) (*kindOf[T, L], error) {
	objects, err := kube.NewInformer(resource, r.options.Namespace, ix, r.log.With("kind", name))
	if err != nil {
		return nil, err
	}
	return &kindOf[T, L]{name: name, resource: resource, objects: objects, verdicts: newVerdicts(decided)}, nil
}

// wire makes the queues. The caller sets only the status options that differ between kinds.
func (k *kindOf[T, L]) wire(r *Reconciler, reconcile func(context.Context, kube.Key) error, status statusOptions[T, L]) {
	queue := func(stage string, workers int) kube.ControllerOptions[kube.Key] {
		return kube.ControllerOptions[kube.Key]{
			Name: k.name, Workers: workers, Parts: kube.Key.Parts,
			Observe: r.metrics.observe(k.name, stage), Log: r.log.With("kind", k.name, "stage", stage),
		}
	}
	compile := queue(stageCompile, compileWorkers)
	compile.Reconcile = reconcile
	k.compile = kube.NewController(compile)
	status.kind, status.resource, status.objects, status.verdicts, status.health = k.name, k.resource, k.objects, k.verdicts, r.health
	status.leading, status.events = &r.leading, r.options.Events
	k.status = newStatusController(status, queue(stageStatus, r.options.StatusWorkers))
	r.metrics.depth(k.name, stageCompile, k.compile.Len)
	r.metrics.depth(k.name, stageStatus, k.status.queue.Len)
}

// watch feeds the queues. A change of status alone, such as our own write, is enqueued for status only and compiles nothing.
func (k *kindOf[T, L]) watch(keys func(T) []kube.Key) error {
	var err error
	if k.named, err = kube.Watch(k.compile, k.objects, keys, specChanged[T]); err != nil {
		return err
	}
	_, err = kube.Watch(k.status.queue, k.objects, kube.Self[T], nil)
	return err
}

// specChanged reports whether an update may change the compiled object.
func specChanged[T subject](was, is T) bool {
	return was.GetGeneration() != is.GetGeneration() ||
		(was.GetDeletionTimestamp() == nil) != (is.GetDeletionTimestamp() == nil) ||
		!maps.Equal(was.GetAnnotations(), is.GetAnnotations())
}

// run starts the cache in the group. It starts the compile queue once the checkers are done.
func (k *kindOf[T, L]) run(ctx context.Context, group *errgroup.Group, first []cache.DoneChecker) {
	group.Go(func() error {
		k.objects.Run(ctx)
		return nil
	})
	group.Go(func() error {
		if !cache.WaitFor(ctx, "", first...) {
			return nil
		}
		return untilDone(ctx, k.compile.Run(ctx))
	})
}

// runStatus starts the status queue in the group.
func (k *kindOf[T, L]) runStatus(ctx context.Context, group *errgroup.Group) {
	group.Go(func() error { return untilDone(ctx, k.status.run(ctx)) })
}

// untilDone returns nil if ctx has ended, else err.
func untilDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
