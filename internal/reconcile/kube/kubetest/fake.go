// Package kubetest has fakes for tests of controllers.
package kubetest

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	clienttesting "k8s.io/client-go/testing"

	"notifier/internal/reconcile/kube"
)

// Cluster is an object tracker with the client fakes over it.
type Cluster struct {
	clienttesting.Fake
	Tracker clienttesting.ObjectTracker
}

// NewCluster returns a cluster with the objects, whose types scheme knows.
func NewCluster(scheme *runtime.Scheme, objects ...runtime.Object) (*Cluster, error) {
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	for _, o := range objects {
		if err := tracker.Add(o); err != nil {
			return nil, err
		}
	}
	c := &Cluster{Tracker: tracker}
	c.AddReactor("*", "*", clienttesting.ObjectReaction(tracker))
	c.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		var options metav1.ListOptions
		if w, ok := action.(clienttesting.WatchActionImpl); ok {
			options = w.ListOptions
		}
		w, err := tracker.Watch(action.GetResource(), action.GetNamespace(), options)
		return true, w, err
	})
	return c, nil
}

// Resource returns the fake resource of a kind in the cluster.
func Resource[T kube.Object](
	c *Cluster, resource schema.GroupVersionResource, kind string, newObject func() T,
) kube.Resource[T] {
	of := resource.GroupVersion().WithKind(kind)
	return kube.Resource[T]{In: func(namespace string) kube.Client[T] {
		return client[T]{gentype.NewFakeClient(&c.Fake, namespace, resource, of, newObject)}
	}}
}

// client is a kube.Client over client-go's fake.
type client[T kube.Object] struct{ *gentype.FakeClient[T] }

// List returns the objects of the namespace, or of all namespaces.
func (c client[T]) List(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return c.Fake.Invokes(clienttesting.NewListActionWithOptions(c.Resource(), c.Kind(), c.Namespace(), options), &metav1.List{})
}
