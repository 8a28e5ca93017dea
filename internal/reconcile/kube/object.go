package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Key names an object of a kind: namespace and name.
type Key = cache.ObjectName

// KeyOf returns the key of an object.
func KeyOf(o metav1.Object) Key { return Key{Namespace: o.GetNamespace(), Name: o.GetName()} }

// Object is an object of the three kinds.
type Object interface {
	runtime.Object
	metav1.Object
	// Conditions and Problem are those of its status.
	Conditions() *[]metav1.Condition
	Problem() *string
	// ShareTexts calls share with the texts that other objects probably have too, such as the name of a kind.
	ShareTexts(share func(*string))
}

// Client reads and writes the objects of one kind in one namespace, or reads those of all namespaces.
type Client[T Object] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	UpdateStatus(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (T, error)
}

// Resource returns the clients of one kind.
type Resource[T Object] struct {
	// In returns the client for one namespace; for the empty namespace, a client that can only list and watch.
	In func(namespace string) Client[T]
}

// Undecodable is an annotation, in memory only, of an object whose spec does not decode into its Go type: for instance a duration that
// matches the CRD's pattern and overflows. The spec is empty then.
const Undecodable = "notifier.internal/undecodable"

// IsUndecodable reports whether the spec of o could not be decoded.
func IsUndecodable(o metav1.Object) bool {
	_, ok := o.GetAnnotations()[Undecodable]
	return ok
}
