// Package kubetest has fakes for tests of controllers.
package kubetest

import (
	"k8s.io/apimachinery/pkg/api/meta"
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

// Kind describes a kind to a Resource of fakes.
type Kind[T kube.Object, L runtime.Object] struct {
	Resource schema.GroupVersionResource
	Kind     string
	New      func() T
	NewList  func() L
	Items    func(L) []T
	SetItems func(L, []T)
}

// Resource returns the fake resource of a kind in the cluster.
func Resource[T kube.Object, L runtime.Object](c *Cluster, k Kind[T, L]) kube.Resource[T, L] {
	return kube.Resource[T, L]{
		In: func(namespace string) kube.Client[T, L] {
			return gentype.NewFakeClientWithList(&c.Fake, namespace, k.Resource,
				k.Resource.GroupVersion().WithKind(k.Kind), k.New, k.NewList, copyListMeta[L], k.Items, k.SetItems)
		},
	}
}

// copyListMeta keeps a list's resource version, from which the informer continues to watch.
func copyListMeta[L runtime.Object](to, from L) {
	if from, err := meta.ListAccessor(from); err == nil {
		if to, err := meta.ListAccessor(to); err == nil {
			to.SetResourceVersion(from.GetResourceVersion())
		}
	}
}
