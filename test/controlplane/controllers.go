package controlplane

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
)

// garbageCollectorSync is how often the garbage collector looks for new kinds. Real
// clusters take 30 s; a test that installs a CRD should not wait that long.
const garbageCollectorSync = 5 * time.Second

// env has the inputs of every controller.
type env struct {
	parts    *sync.WaitGroup
	client   *kubernetes.Clientset
	metadata metadata.Interface
	typed    informers.SharedInformerFactory
	// started is closed when the informers of typed run.
	started chan struct{}
}

var starters = map[string]func(context.Context, *env) error{
	"clusterrole-aggregation": startClusterRoleAggregation,
	"garbage-collector":       startGarbageCollector,
	"namespace":               startNamespace,
	"serviceaccount":          startServiceAccount,
}

// Controllers names every controller that can be run.
func Controllers() []string {
	return []string{"clusterrole-aggregation", "garbage-collector", "namespace", "serviceaccount"}
}

// runControllers starts the named controllers; they end with ctx and are joined by parts.
func runControllers(ctx context.Context, parts *sync.WaitGroup, cfg *rest.Config, names []string) error {
	cfg.QPS, cfg.Burst = -1, 0
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	meta, err := metadata.NewForConfig(cfg)
	if err != nil {
		return err
	}
	e := &env{
		parts:    parts,
		client:   client,
		metadata: meta,
		typed:    informers.NewSharedInformerFactory(client, 0),
		started:  make(chan struct{}),
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if err := starters[name](ctx, e); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	e.typed.Start(ctx.Done())
	close(e.started)
	for kind, ok := range e.typed.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return fmt.Errorf("informer of %s did not sync", kind)
		}
	}
	return nil
}

func startClusterRoleAggregation(ctx context.Context, e *env) error {
	c := clusterroleaggregation.NewClusterRoleAggregation(e.typed.Rbac().V1().ClusterRoles(), e.client.RbacV1())
	e.parts.Go(func() { c.Run(ctx, 1) })
	return nil
}

// startNamespace starts the controller that empties deleted namespaces. It waits 5 s
// before it looks at one, as in every cluster.
func startNamespace(ctx context.Context, e *env) error {
	c := namespace.NewNamespaceController(ctx, e.client, e.metadata,
		e.client.Discovery().ServerPreferredNamespacedResources,
		e.typed.Core().V1().Namespaces(), 5*time.Minute, corev1.FinalizerKubernetes)
	e.parts.Go(func() { c.Run(ctx, 10) })
	return nil
}

func startServiceAccount(ctx context.Context, e *env) error {
	c, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx),
		e.typed.Core().V1().ServiceAccounts(), e.typed.Core().V1().Namespaces(),
		e.client, serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return err
	}
	e.parts.Go(func() { c.Run(ctx, 4) })
	return nil
}

func startGarbageCollector(ctx context.Context, e *env) error {
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(e.client.Discovery()))
	shared := informerfactory.NewInformerFactory(e.typed, metadatainformer.NewSharedInformerFactory(e.metadata, 0))
	c, err := garbagecollector.NewGarbageCollector(ctx, e.client, e.metadata, mapper,
		garbagecollector.DefaultIgnoredResources(), shared, e.started)
	if err != nil {
		return err
	}
	var known discovery.ServerResourcesInterface = e.client.Discovery()
	e.parts.Go(func() { c.Run(ctx, 4, 30*time.Second) })
	e.parts.Go(func() { c.Sync(ctx, known, garbageCollectorSync) })
	return nil
}
