package recorder

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"notifier/internal/builtin"
)

// writeTimeout bounds one write: all other Events wait for it.
const writeTimeout = 10 * time.Second

// NewSink returns the Kubernetes Events of all namespaces, over a client of the core API.
func NewSink(core rest.Interface) record.EventSink { return eventClient{core} }

// eventClient writes each Event to the namespace that the Event names. A record.EventSink gets no context.
type eventClient struct{ core rest.Interface }

// of returns the client of the namespace of e, and the context of one write.
func (c eventClient) of(e *corev1.Event) (*gentype.Client[*corev1.Event], context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	return builtin.In[corev1.Event](c.core, "events", e.Namespace), ctx, cancel
}

func (c eventClient) Create(e *corev1.Event) (*corev1.Event, error) {
	events, ctx, cancel := c.of(e)
	defer cancel()
	return events.Create(ctx, e, metav1.CreateOptions{})
}

func (c eventClient) Update(e *corev1.Event) (*corev1.Event, error) {
	events, ctx, cancel := c.of(e)
	defer cancel()
	return events.Update(ctx, e, metav1.UpdateOptions{})
}

func (c eventClient) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	events, ctx, cancel := c.of(e)
	defer cancel()
	return events.Patch(ctx, e.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
}
