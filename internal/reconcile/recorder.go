package reconcile

import (
	"context"
	"log/slog"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	v1 "notifier/api/v1"
	"notifier/api/v1beta3"
	"notifier/internal/event"
	"notifier/internal/fair"
)

// component is the source of Events. It is Flux's name, since people filter by it.
const component = "notification-controller"

// recalled is the number of objects whose past Events are kept in memory, to coalesce equal ones and to limit each object's rate.
// client-go's default of 4,096 took 6 MB once that many objects had Events, as after the installation in a large cluster.
const recalled = 1024

// Each namespace may have eventRate Events a second, and eventBurst at once. All wait in one line, which the API server takes at 50 a second
// and client-go bounds to 1,000: one namespace whose thousand Alerts fail would have the Events of all others dropped. The conditions tell
// what is dropped.
const (
	eventRate       = 10
	eventBurst      = 250
	eventNamespaces = 4096 // whose rates are remembered
)

// The API server's limits for an Event's message and reason.
const (
	maxEventMessage = 1024
	maxEventReason  = 128
)

// apiVersions has the kinds that Events may be about, with their API versions.
var apiVersions = map[string]string{
	v1.ReceiverKind:      v1.GroupVersion.String(),
	v1beta3.AlertKind:    v1beta3.GroupVersion.String(),
	v1beta3.ProviderKind: v1beta3.GroupVersion.String(),
}

// Recorder writes Kubernetes Events about the three kinds. It exists on every replica: the replica that finds a fact records it.
//
// It never blocks: Events wait in a bounded buffer, and are dropped when it is full, when their namespace has too many, or when Run is not
// running. client-go coalesces equal Events and limits each object to 25, then one every five minutes. All readers of Events in the
// namespace see the messages, so callers pass no secrets.
type Recorder struct {
	events  record.EventSink
	log     *slog.Logger
	rates   *fair.Limiters[string]
	current atomic.Pointer[record.EventRecorderLogger]
}

// NewRecorder returns a recorder that writes to events.
func NewRecorder(events record.EventSink, log *slog.Logger) *Recorder {
	return &Recorder{events: events, log: log, rates: fair.NewLimiters[string](eventRate, eventBurst, eventNamespaces)}
}

// Run writes Events until ctx ends. It returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{LRUCacheSize: recalled}))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(r.events)
	recorder := broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: component})
	r.current.Store(&recorder)
	defer r.current.Store(nil)
	<-ctx.Done()
	return nil
}

// Event records an Event about an object. eventType is corev1.EventTypeNormal or corev1.EventTypeWarning. It drops an Event about any
// other kind than the three, which the process has no right to write.
//
//nolint:revive // its arguments are plain strings, so that packages that know no Kubernetes types can name an object
func (r *Recorder) Event(kind, namespace, name, uid, eventType, reason, message string) {
	recorder := r.current.Load()
	apiVersion, known := apiVersions[kind]
	if recorder == nil || !known || !r.rates.Allow(namespace) {
		r.log.Debug("event not recorded", "kind", kind, "namespace", namespace, "name", name, "reason", reason)
		return
	}
	object := &corev1.ObjectReference{Kind: kind, APIVersion: apiVersion, Namespace: namespace, Name: name, UID: types.UID(uid)}
	(*recorder).Event(object, eventType, cut(reason, maxEventReason), cut(message, maxEventMessage))
}

// cut returns s truncated to limit bytes, with an ellipsis if it is longer.
func cut(s string, limit int) string { return event.Truncate(s, limit, "…") }
