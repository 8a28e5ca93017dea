package reconcile

import (
	"context"
	"log/slog"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	v1 "notifier/api/v1"
	"notifier/api/v1beta3"
	"notifier/internal/event"
)

// component is the source that Events name: Flux's, since people filter by it.
const component = "notification-controller"

// recalled is of how many objects it is known which Events they had, to fold equal ones and to bound what each has. client-go's own 4,096
// cost 6 MB once as many had any, as after the installation in a large cluster.
const recalled = 1024

// The API server's limits for an Event's message and reason.
const (
	maxEventMessage = 1024
	maxEventReason  = 128
)

// apiVersions are those of the kinds that Events may be about.
var apiVersions = map[string]string{
	v1.ReceiverKind:      v1.GroupVersion.String(),
	v1beta3.AlertKind:    v1beta3.GroupVersion.String(),
	v1beta3.ProviderKind: v1beta3.GroupVersion.String(),
}

// Recorder writes Kubernetes Events about the three kinds. It is the same on every replica: who owns a fact records it.
//
// It never blocks: Events wait in a bounded buffer and are dropped when it is full or when Run does not run. client-go folds equal
// ones and lets each object have 25 and then one every five minutes. Messages are shown to whoever may read Events in the
// namespace, so callers pass nothing that is secret.
type Recorder struct {
	events  typedcorev1.EventsGetter
	log     *slog.Logger
	current atomic.Pointer[record.EventRecorderLogger]
}

// NewRecorder returns a recorder over the client of Events.
func NewRecorder(events typedcorev1.EventsGetter, log *slog.Logger) *Recorder {
	return &Recorder{events: events, log: log}
}

// Run writes Events until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{LRUCacheSize: recalled}))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: r.events.Events("")})
	recorder := broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: component})
	r.current.Store(&recorder)
	defer r.current.Store(nil)
	<-ctx.Done()
	return nil
}

// Event records that something happened to the object. eventType is corev1.EventTypeNormal or corev1.EventTypeWarning. An Event
// about any other than the three kinds is not recorded: the process has nothing to say about those, nor the right.
//
//nolint:revive // its arguments are plain strings, so that packages that know no Kubernetes types can name an object
func (r *Recorder) Event(kind, namespace, name, uid, eventType, reason, message string) {
	recorder := r.current.Load()
	apiVersion, known := apiVersions[kind]
	if recorder == nil || !known {
		r.log.Debug("event not recorded", "kind", kind, "namespace", namespace, "name", name, "reason", reason)
		return
	}
	object := &corev1.ObjectReference{Kind: kind, APIVersion: apiVersion, Namespace: namespace, Name: name, UID: types.UID(uid)}
	(*recorder).Event(object, eventType, cut(reason, maxEventReason), cut(message, maxEventMessage))
}

// cut is a text as it is shown in at most so many bytes.
func cut(s string, limit int) string { return event.Truncate(s, limit, "…") }
