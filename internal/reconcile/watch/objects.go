package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"notifier/internal/builtin"
	"notifier/internal/reconcile/kube"
)

// Objects lists and watches the objects of the watched kinds, and definitions.
type Objects interface {
	// ListerWatcher returns a lister and watcher of a kind by a resource, in one namespace or, for the empty one, in all. Its objects are
	// of the cache's type.
	ListerWatcher(kind *Kind, resource schema.GroupVersionResource, namespace string) cache.ListerWatcher
}

// objectList is a list of objects in the form that an informer requires.
type objectList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []*object
}

// DeepCopyObject returns the list itself, which is immutable.
func (l *objectList) DeepCopyObject() runtime.Object { return l }

// onlyMetadata returns the media type of an answer that has only the metadata of objects. A definition has hundreds of kilobytes beside it.
func onlyMetadata(o *metav1.ListOptions) string {
	as := "PartialObjectMetadataList"
	if o.Watch {
		as = "PartialObjectMetadata"
	}
	return "application/json;as=" + as + ";g=meta.k8s.io;v=v1,application/json"
}

// ListerWatcher reads objects by requests to the API server.
func (s *Server) ListerWatcher(kind *Kind, resource schema.GroupVersionResource, namespace string) cache.ListerWatcher {
	request := func(o *metav1.ListOptions) *rest.Request {
		r := s.client.Get().AbsPath("/apis", resource.Group, resource.Version)
		if namespace != "" {
			r = r.Suffix("namespaces", namespace)
		}
		if kind == definitions {
			r.SetHeader("Accept", onlyMetadata(o))
		}
		return r.Suffix(resource.Resource).SpecificallyVersionedParams(o, builtin.Options, corev1.SchemeGroupVersion).MaxRetries(0) // Outage retries
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			body, err := s.away.Stream(ctx, func() *rest.Request { return request(&o) })
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
			}
			defer body.Close()
			return decodeList(kind, body)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			var body io.ReadCloser
			err := s.away.Resume(ctx, func() (err error) {
				body, err = request(&o).Stream(ctx)
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("watch %s: %w", kind.Kind, err)
			}
			return watch.NewStreamWatcher(&objectStream{kind, body, json.NewDecoder(body)}, brokenStream), nil
		},
	}, kube.ListFirst{})
}

// brokenStream reports an undecodable watch event to an informer.
var brokenStream = apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")

func decodeList(kind *Kind, body io.Reader) (*objectList, error) {
	list := &objectList{}
	// The items are read into one place: next to nothing of a document stays, and its garbage would lie between the objects.
	var item document
	labels := map[string]string{}
	err := kube.DecodeList(body, &list.ListMeta, func(d *json.Decoder) error {
		clear(labels)
		clear(item.Status.Conditions)
		item = document{Metadata: objectMeta{Labels: labels}, Status: status{Conditions: item.Status.Conditions[:0]}}
		if err := tolerate(d.Decode(&item)); err != nil {
			return err
		}
		o := newObject(kind, &item)
		o.listed = true
		o.share()
		list.Items = append(list.Items, o)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	return list, nil
}

// objectStream decodes the events of a watch.
type objectStream struct {
	kind   *Kind
	body   io.ReadCloser
	events *json.Decoder
}

// Decode returns the next event. It reports the end of the watch as io.EOF.
func (s *objectStream) Decode() (watch.EventType, runtime.Object, error) {
	var sent struct {
		Type   watch.EventType `json:"type"`
		Object document        `json:"object"`
	}
	if err := tolerate(s.events.Decode(&sent)); err != nil {
		return "", nil, err
	}
	switch sent.Type {
	case watch.Error:
		return watch.Error, sent.Object.asStatus(), nil
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		o := newObject(s.kind, &sent.Object)
		o.share()
		return sent.Type, o, nil
	default:
		return "", nil, fmt.Errorf("watch %s: sent of %q", s.kind.Kind, sent.Type)
	}
}

// Close ends the watch.
func (s *objectStream) Close() { _ = s.body.Close() }
