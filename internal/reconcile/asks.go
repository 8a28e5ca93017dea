package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "notifier/api/v1"
	"notifier/api/v1beta3"
	"notifier/internal/event"
	"notifier/internal/event/view"
	"notifier/internal/fair"
	"notifier/internal/reconcile/kube"
)

// Requests executes the requests that owners of Alerts and Providers make by annotations. An *event.Error is safe to show; any other
// error is retried.
type Requests interface {
	Replay(ctx context.Context, namespace string, r view.ReplayRequest) (view.ReplayResult, error)
	Test(ctx context.Context, namespace string, r view.TestRequest) (view.TestResult, error)
}

// The prefixes of the feed's keys under which an object's last handled requests are stored, one for each of the two kinds.
const (
	alertAsked    = "AlertAsked"
	providerAsked = "ProviderAsked"
)

// The reasons of Kubernetes Events about requests.
const (
	replayedEvent = "Replayed"
	notReplayed   = "ReplayRefused"
	testedEvent   = "TestSent"
	notTested     = "TestRefused"
)

const (
	// askWorkers is the number of requests of one kind's objects that are served at once, at most one of each namespace. askTimeout ends a
	// request. askPause delays another request of a namespace that is being served.
	askWorkers = 8
	askTimeout = time.Minute
	askPause   = time.Second
	// maxRefusalsTold bounds the deliveries whose refusals an Event explains.
	maxRefusalsTold = 3
)

// asked has the last handled annotation values of an object, in the form of mark.
type asked struct {
	// UID is the object's. A new object of the same name begins with no handled request.
	UID    string `json:"uid"`
	Replay string `json:"replay,omitempty"`
	Test   string `json:"test,omitempty"`
}

// asks acts on the annotations of one kind's objects, once for each value, while this replica leads. It stores a value after the request
// succeeded. A crash in between repeats the request, under the same delivery IDs.
type asks[T subject] struct {
	kind, key string
	objects   *kube.Informer[T]
	requests  Requests
	feed      HealthFeed
	events    EventRecorder
	leads     func() bool
	// shown returns the handled values of the object's status. They count if the feed has none, after the loss of its data.
	shown func(T) asked
	// of makes a request select an object's deliveries.
	of    func(r *view.ReplayRequest, name string)
	queue *kube.Controller[kube.Key]
	// serving has the namespaces whose requests are being served.
	serving *fair.Capacities[string]
}

// newAsks makes the queue that acts on the annotations of a kind. The caller sets the fields that differ between kinds, and calls watch.
func newAsks[T subject](r *Reconciler, kind, key string, objects *kube.Informer[T]) *asks[T] {
	a := &asks[T]{
		kind: kind, key: key, objects: objects, requests: r.options.Requests, feed: r.options.Health, events: r.options.Events,
		leads: r.leads, serving: fair.NewCapacities[string](nil, 1, 0),
	}
	a.queue = kube.NewController(kube.ControllerOptions[kube.Key]{
		Name: kind + " asks", Workers: askWorkers, Parts: kube.Key.Parts, Reconcile: a.reconcile,
		Log: r.log.With("kind", kind, "stage", "asks"),
	})
	return a
}

// watch feeds the queue.
func (a *asks[T]) watch() error {
	_, err := kube.Watch(a.queue, a.objects, a.keys, specChanged[T])
	return err
}

// wants returns the requests of an object's annotations.
func (a *asks[T]) wants(o T) asked {
	annotations := o.GetAnnotations()
	w := asked{UID: string(o.GetUID()), Replay: annotations[v1.ReplayAnnotation]}
	if a.kind == v1beta3.ProviderKind {
		w.Test = annotations[v1.TestAnnotation]
	}
	return w
}

// keys returns the key of an object that requests something, else none.
func (a *asks[T]) keys(o T) []kube.Key {
	if w := a.wants(o); w.Replay == "" && w.Test == "" {
		return nil
	}
	return kube.Self(o)
}

// enqueueAll enqueues all objects that request something. It is called when this replica begins to lead.
func (a *asks[T]) enqueueAll() {
	for _, o := range a.objects.All() {
		for _, k := range a.keys(o) {
			a.queue.Enqueue(k)
		}
	}
}

// reconcile acts on the new annotation values of one object.
func (a *asks[T]) reconcile(ctx context.Context, k kube.Key) error {
	o, ok := a.objects.Get(k)
	if !a.leads() || !ok || o.GetDeletionTimestamp() != nil {
		return nil // the next leader enqueues all
	}
	use, free := a.serving.TryAcquire(k.Namespace, 1)
	if !free {
		a.queue.EnqueueAfter(k, askPause)
		return nil
	}
	defer use.Release()
	w := a.wants(o)
	was, err := a.handled(ctx, k, o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, one := range []struct {
		value string
		last  *string
		act   func(context.Context, T, string) error
	}{{w.Replay, &was.Replay, a.replay}, {w.Test, &was.Test, a.test}} {
		if one.value == "" || mark(one.value) == *one.last {
			continue
		}
		if err := one.act(ctx, o, one.value); err != nil {
			return a.later(k, err)
		}
		if !a.leads() {
			return nil
		}
		*one.last = mark(one.value)
		if err := a.note(ctx, k, was); err != nil {
			return err
		}
	}
	return nil
}

// later enqueues the object after the error's RetryAfter, if it has one; else it returns err.
func (a *asks[T]) later(k kube.Key, err error) error {
	if e, ok := errors.AsType[*event.Error](err); ok && e.RetryAfter > 0 {
		a.queue.EnqueueAfter(k, e.RetryAfter)
		return nil
	}
	return err
}

// handled returns the last handled values of an object, from the feed, else from its status.
func (a *asks[T]) handled(ctx context.Context, k kube.Key, o T) (asked, error) {
	uid := string(o.GetUID())
	value, err := a.feed.Get(ctx, a.key+"/"+k.String())
	if err != nil {
		return asked{}, err
	}
	var was asked
	if value != nil && json.Unmarshal(value, &was) == nil && was.UID == uid {
		return was, nil
	}
	was = a.shown(o)
	was.UID = uid
	return was, nil
}

func (a *asks[T]) note(ctx context.Context, k kube.Key, was asked) error {
	value, err := json.Marshal(was)
	if err != nil { // strings always encode
		panic(err)
	}
	return a.feed.Put(ctx, a.key+"/"+k.String(), value)
}

// replay acts on v1.ReplayAnnotation.
func (a *asks[T]) replay(ctx context.Context, o T, value string) error {
	r, err := parseReplay(value, time.Now())
	if err != nil {
		a.tell(o, false, notReplayed, fmt.Sprintf("annotation %s: %v", v1.ReplayAnnotation, err))
		return nil
	}
	a.of(&r, o.GetName())
	result, err := a.requests.Replay(ctx, o.GetNamespace(), r)
	if told, ok := toTell(err); ok {
		a.tell(o, false, notReplayed, told)
		return nil
	}
	if err != nil {
		return err
	}
	reason := replayedEvent
	if result.Replayed == 0 {
		reason = notReplayed
	}
	a.tell(o, len(result.Refused) == 0, reason, replayTold(result))
	return nil
}

// test acts on v1.TestAnnotation.
func (a *asks[T]) test(ctx context.Context, o T, value string) error {
	result, err := a.requests.Test(ctx, o.GetNamespace(), view.TestRequest{Provider: o.GetName(), Value: value})
	if told, ok := toTell(err); ok {
		a.tell(o, false, notTested, told)
		return nil
	}
	if err != nil {
		return err // also when the Provider is not compiled yet
	}
	a.tell(o, true, testedEvent, "a test message is on its way, delivery "+result.DeliveryID)
	return nil
}

// toTell returns the text for the owner and true for a permanent error, else false.
func toTell(err error) (string, bool) {
	e, ok := errors.AsType[*event.Error](err)
	if !ok || e.Class != event.Permanent {
		return "", false
	}
	return e.Reason, true
}

// replayTold returns the text for the owner about a replay's result.
func replayTold(r view.ReplayResult) string {
	if r.Replayed == 0 && len(r.Refused) == 0 && !r.More {
		return "nothing that is kept is selected, and nothing is sent again"
	}
	told := []string{numbered(r.Replayed, "delivery is on its way again", "deliveries are on their way again")}
	if n := len(r.Refused); n > 0 {
		told = append(told, fmt.Sprintf("%d could not be replayed", n))
		for _, id := range slices.Sorted(maps.Keys(r.Refused))[:min(n, maxRefusalsTold)] {
			told = append(told, id+": "+r.Refused[id])
		}
	}
	if r.More {
		told = append(told, "there are more: set the annotation to another value")
	}
	return strings.Join(told, "; ")
}

func (a *asks[T]) tell(o T, well bool, reason, message string) {
	eventType := corev1.EventTypeNormal
	if !well {
		eventType = corev1.EventTypeWarning
	}
	a.events.Event(a.kind, o.GetNamespace(), o.GetName(), string(o.GetUID()), eventType, reason, message)
}
