// Package recorder writes Kubernetes Events about the three kinds, so that one namespace's Events crowd out no other's.
package recorder

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/fair"
	"notifier/internal/reconcile/kube"
)

// component is the source of Events. It is Flux's name, since people filter by it.
const component = "notification-controller"

// recalled is the number of objects whose past Events are kept in memory, to coalesce equal ones and to limit each object's rate.
// client-go's default of 4,096 took 6 MB once that many objects had Events, as after the installation in a large cluster.
const recalled = 1024

// client-go's broadcaster has one queue for the Events of all namespaces, and drops all beyond a thousand. So Events wait here instead, in turns,
// until they are written: eventsEach of a namespace, of which the first eventsFree find room even when eventsWaiting of all namespaces wait.
// Of a namespace eventsRate are written a second, eventsEach at once: etcd keeps each for an hour. The conditions report the same facts as a
// dropped Event.
const (
	eventsWaiting = 2048
	eventsEach    = 256
	eventsFree    = 8
	eventsRate    = 2
	// maxNamespaces bounds the namespaces whose rates are remembered.
	maxNamespaces = 8192
)

const (
	// writeTimeout bounds one write: the other Events of its namespace wait for it.
	writeTimeout = 10 * time.Second
	// writers are the writes at once, of namespaces of which none has two: an admission webhook that selects a namespace may let each of its
	// writes time out. The Events of a namespace are written in their order: of equal ones, the last has the count of all.
	writers = 8
)

// MaxMessage and maxReason are the API server's limits for an Event's message and reason, in bytes.
const (
	MaxMessage = 1024
	maxReason  = 128
)

// kinds are those that Events may be about.
var kinds = []string{v1.ReceiverKind, v1.AlertKind, v1.ProviderKind}

// apiVersion is the version that the API server prefers: "kubectl events --for" finds no other.
var apiVersion = v1.GroupVersion.String()

// Sink writes Kubernetes Events, at a rate of its own.
type Sink interface {
	Create(ctx context.Context, e *corev1.Event) (*corev1.Event, error)
	// Patch merges data into the stored Event of e's namespace and name.
	Patch(ctx context.Context, e *corev1.Event, data []byte) (*corev1.Event, error)
}

// Recorder writes Kubernetes Events about the three kinds. It exists on every replica: the replica that finds a fact records it.
//
// It never blocks: Events wait, namespaces in turns, and are dropped when too many of their namespace or of all wait, when Run is not
// running, or when the API server refuses them. client-go coalesces equal Events and limits each object to 25, then one every five minutes. All
// readers of Events in the namespace see the messages, so callers pass no secrets.
type Recorder struct {
	events  Sink
	log     *slog.Logger
	places  *fair.Capacities[string]
	rates   *fair.Limiters[string]
	waiting atomic.Pointer[kube.Controller[string]]

	mu sync.Mutex
	// lines has the Events of each namespace that wait, the first one first. It stays there until it is written or refused.
	lines map[string][]*recorded
}

// recorded is an Event that waits.
type recorded struct {
	object                     corev1.ObjectReference
	eventType, reason, message string
	// at is when it was recorded: it may wait for long while the API server is away.
	at    metav1.Time
	place fair.KeyUse[string]
	// coalesced is the Event, or the patch of an earlier one, nil until its first turn.
	coalesced *record.EventCorrelateResult
}

// New returns a recorder that writes to events.
func New(events Sink, log *slog.Logger) *Recorder {
	return &Recorder{
		events: events, log: log, places: fair.NewCapacities[string](fair.NewCapacity(eventsWaiting), eventsEach, eventsFree),
		rates: fair.NewLimiters[string](eventsRate, eventsEach, maxNamespaces), lines: map[string][]*recorded{},
	}
}

// Run writes Events until ctx ends. It returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	correlator := record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{LRUCacheSize: recalled})
	var waiting *kube.Controller[string]
	waiting = kube.NewController(kube.ControllerOptions[string]{
		Workers: writers, Log: r.log,
		Parts: func(namespace string) (of, name string) { return namespace, "" },
		Reconcile: func(ctx context.Context, namespace string) error {
			e := r.first(namespace)
			if e == nil {
				return nil // all were written since it was enqueued
			}
			again := false
			defer func() { // also after a panic
				if !again && r.leave(e) {
					waiting.Enqueue(namespace)
				}
			}()
			err := r.write(ctx, correlator, e)
			if again = kube.IsAway(err); again {
				return err
			}
			if err == nil || apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				return nil
			}
			return kube.Permanent(fmt.Errorf("an Event about %s %s: %w", e.object.Kind, e.object.Name, err))
		},
	})
	r.waiting.Store(waiting)
	defer r.waiting.Store(nil)
	waiting.Run(ctx)
	return nil
}

// first returns the Event of a namespace that is to be written next, nil if none waits.
func (r *Recorder) first(namespace string) *recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	if line := r.lines[namespace]; len(line) > 0 {
		return line[0]
	}
	return nil
}

// leave removes the first Event of a namespace, and reports whether another one waits.
func (r *Recorder) leave(e *recorded) (more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.place.Release()
	namespace := e.object.Namespace
	if r.lines[namespace] = r.lines[namespace][1:]; len(r.lines[namespace]) > 0 {
		return true
	}
	delete(r.lines, namespace)
	return false
}

// write writes an Event, unless it is one too many of its object or namespace.
func (r *Recorder) write(ctx context.Context, correlator *record.EventCorrelator, e *recorded) (err error) {
	if e.coalesced == nil {
		e.coalesced, _ = correlator.EventCorrelate(e.event(metav1.Now())) // it fails for what cannot be encoded, and an Event can
		e.coalesced.Skip = e.coalesced.Skip || !r.rates.Allow(e.object.Namespace)
	}
	if e.coalesced.Skip {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	of, created := e.coalesced.Event, e.coalesced.Event.Count <= 1
	var written *corev1.Event
	if !created {
		written, err = r.events.Patch(ctx, of, e.coalesced.Patch)
	}
	if created || apierrors.IsNotFound(err) {
		of.ResourceVersion = ""
		written, err = r.events.Create(ctx, of)
	}
	if err == nil {
		correlator.UpdateState(written)
	}
	return err
}

// event returns the Event as it is before it is coalesced with others, under a name of the time now.
func (e *recorded) event(now metav1.Time) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: util.GenerateEventName(e.object.Name, now.UnixNano()), Namespace: e.object.Namespace},
		InvolvedObject: e.object, Type: e.eventType, Reason: e.reason, Message: e.message,
		FirstTimestamp: e.at, LastTimestamp: e.at, Count: 1,
		Source: corev1.EventSource{Component: component}, ReportingController: component,
	}
}

// Event records an Event about an object. eventType is corev1.EventTypeNormal or corev1.EventTypeWarning. It drops an Event about any
// other kind than the three, which the process has no right to write.
//
//nolint:revive // its arguments are plain strings, so that packages that know no Kubernetes types can name an object
func (r *Recorder) Event(kind, namespace, name, uid, eventType, reason, message string) {
	waiting := r.waiting.Load()
	if waiting != nil && slices.Contains(kinds, kind) {
		if place, ok := r.places.TryAcquire(namespace, 1); ok {
			e := &recorded{
				object:    corev1.ObjectReference{Kind: kind, APIVersion: apiVersion, Namespace: namespace, Name: name, UID: types.UID(uid)},
				eventType: eventType, reason: event.Truncate(reason, maxReason, "…"), message: event.Truncate(message, MaxMessage, "…"),
				at: metav1.Now(), place: place,
			}
			r.mu.Lock()
			r.lines[namespace] = append(r.lines[namespace], e)
			r.mu.Unlock()
			waiting.Enqueue(namespace)
			return
		}
	}
	r.log.Debug("event not recorded", "kind", kind, "namespace", namespace, "name", name, "reason", reason)
}
