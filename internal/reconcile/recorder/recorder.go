// Package recorder writes Kubernetes Events about the three kinds, so that one namespace's Events crowd out no other's.
package recorder

import (
	"context"
	"log/slog"
	"sync/atomic"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	v1 "notifier/api/v1"
	"notifier/api/v1beta3"
	"notifier/internal/event"
	"notifier/internal/fair"
	"notifier/internal/reconcile/kube"
)

// component is the source of Events. It is Flux's name, since people filter by it.
const component = "notification-controller"

// recalled is the number of objects whose past Events are kept in memory, to coalesce equal ones and to limit each object's rate.
// client-go's default of 4,096 took 6 MB once that many objects had Events, as after the installation in a large cluster.
const recalled = 1024

// client-go has one queue for the Events of all namespaces, and drops all beyond a thousand. So Events wait before that queue, in turns, and
// enter it at the rate of the client that writes them: eventsEach of a namespace, of which the first eventsFree find room even when
// eventsWaiting of all namespaces wait. The conditions report the same facts as a dropped Event.
const (
	eventsWaiting = 2048
	eventsEach    = 256
	eventsFree    = 8
)

// MaxMessage and maxReason are the API server's limits for an Event's message and reason, in bytes.
const (
	MaxMessage = 1024
	maxReason  = 128
)

// apiVersions has the kinds that Events may be about, with their API versions.
var apiVersions = map[string]string{
	v1.ReceiverKind:      v1.GroupVersion.String(),
	v1beta3.AlertKind:    v1beta3.GroupVersion.String(),
	v1beta3.ProviderKind: v1beta3.GroupVersion.String(),
}

// Recorder writes Kubernetes Events about the three kinds. It exists on every replica: the replica that finds a fact records it.
//
// It never blocks: Events wait, namespaces in turns, and are dropped when too many of their namespace or of all wait, or when Run is not
// running. client-go coalesces equal Events and limits each object to 25, then one every five minutes. All readers of Events in the
// namespace see the messages, so callers pass no secrets.
type Recorder struct {
	events  record.EventSink
	log     *slog.Logger
	rate    *rate.Limiter
	places  *fair.Capacities[string]
	waiting atomic.Pointer[kube.Controller[*recorded]]
}

// recorded is an Event that waits.
type recorded struct {
	object                     corev1.ObjectReference
	eventType, reason, message string
	place                      fair.KeyUse[string]
}

// New returns a recorder that writes to events, which takes qps a second.
func New(events record.EventSink, qps float32, log *slog.Logger) *Recorder {
	return &Recorder{
		events: events, log: log, rate: rate.NewLimiter(rate.Limit(qps), max(1, int(qps))),
		places: fair.NewCapacities[string](fair.NewCapacity(eventsWaiting), eventsEach, eventsFree),
	}
}

// Run writes Events until ctx ends. It returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{LRUCacheSize: recalled}))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(r.events)
	recorder := broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: component})
	waiting := kube.NewController(kube.ControllerOptions[*recorded]{
		Name: "events", Workers: 1, Log: r.log,
		Parts: func(e *recorded) (namespace, name string) { return e.object.Namespace, e.object.Name },
		Reconcile: func(ctx context.Context, e *recorded) error {
			defer e.place.Release()
			if r.rate.Wait(ctx) == nil {
				recorder.Event(&e.object, e.eventType, e.reason, e.message)
			}
			return nil
		},
	})
	r.waiting.Store(waiting)
	defer r.waiting.Store(nil)
	_ = waiting.Run(ctx) // it waits for no cache and ends with ctx alone
	return nil
}

// Event records an Event about an object. eventType is corev1.EventTypeNormal or corev1.EventTypeWarning. It drops an Event about any
// other kind than the three, which the process has no right to write.
//
//nolint:revive // its arguments are plain strings, so that packages that know no Kubernetes types can name an object
func (r *Recorder) Event(kind, namespace, name, uid, eventType, reason, message string) {
	waiting := r.waiting.Load()
	apiVersion, known := apiVersions[kind]
	if waiting != nil && known {
		if place, ok := r.places.TryAcquire(namespace, 1); ok {
			waiting.Enqueue(&recorded{
				object:    corev1.ObjectReference{Kind: kind, APIVersion: apiVersion, Namespace: namespace, Name: name, UID: types.UID(uid)},
				eventType: eventType, reason: event.Truncate(reason, maxReason, "…"), message: event.Truncate(message, MaxMessage, "…"), place: place,
			})
			return
		}
	}
	r.log.Debug("event not recorded", "kind", kind, "namespace", namespace, "name", name, "reason", reason)
}
