package watch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// newDefinitions returns an informer on the metadata of all custom resource definitions. That of client-go's metadatainformer links the
// kinds of all of Kubernetes' groups.
func newDefinitions(client metadata.Interface) cache.SharedIndexInformer {
	definitions := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return definitions.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return definitions.Watch(ctx, o)
		},
	}
	in := cache.NewSharedIndexInformer(
		cache.ToListWatcherWithWatchListSemantics(lw, client), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{},
	)
	if err := in.SetTransform(trimDefinition); err != nil {
		panic(err) // its only error is that the informer has started
	}
	return in
}

// trimDefinition keeps only the identity of a definition.
func trimDefinition(in any) (any, error) {
	if m, ok := in.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		}}, nil
	}
	return in, nil
}
