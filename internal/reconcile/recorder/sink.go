package recorder

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"notifier/internal/builtin"
)

// NewSink returns the Kubernetes Events of all namespaces, over a client of the core API.
func NewSink(core rest.Interface) Sink { return eventClient{core} }

// eventClient writes each Event to the namespace that the Event names.
type eventClient struct{ core rest.Interface }

func (c eventClient) of(e *corev1.Event) *gentype.Client[*corev1.Event] {
	return builtin.In[corev1.Event](c.core, "events", e.Namespace)
}

func (c eventClient) Create(ctx context.Context, e *corev1.Event) (*corev1.Event, error) {
	return c.of(e).Create(ctx, e, metav1.CreateOptions{})
}

func (c eventClient) Patch(ctx context.Context, e *corev1.Event, data []byte) (*corev1.Event, error) {
	return c.of(e).Patch(ctx, e.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
}
