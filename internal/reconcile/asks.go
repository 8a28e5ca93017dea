package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "notifier/api/v1"
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
	alertAsked    = v1.AlertKind + askedSuffix
	providerAsked = v1.ProviderKind + askedSuffix
	askedSuffix   = "Asked"
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

// watchAsks makes the queue of the objects of a kind that request something. It acts on their annotations, once for each value, while this
// replica leads. It stores a value after the request succeeded. A crash in between repeats the request, under the same delivery IDs.
func (k *kindOf[T]) watchAsks() {
	k.askQueue = kube.NewController(kube.ControllerOptions[kube.Key]{
		Workers: askWorkers, Parts: kube.Key.Parts, Reconcile: k.serveAsks, Log: k.log.With("kind", k.name, "stage", "asks"),
	})
	kube.Watch(k.askQueue, k.objects, func(o T) []kube.Key {
		if w := wants(o); w.Replay == "" && w.Test == "" {
			return nil
		}
		return kube.Self(o)
	}, specChanged[T])
}

// enqueueAsks enqueues all objects that may request something. It is called when this replica begins to lead.
func (k *kindOf[T]) enqueueAsks() {
	for _, key := range k.keysIn("") {
		k.askQueue.Enqueue(key)
	}
}

// askedKey returns the feed's key of an object's last handled requests.
func (k *kindOf[T]) askedKey(key kube.Key) string { return k.name + askedSuffix + "/" + key.String() }

// wants returns the requests of an object's annotations.
func wants(o kube.Object) asked {
	annotations := o.GetAnnotations()
	w := asked{UID: string(o.GetUID()), Replay: annotations[v1.ReplayAnnotation]}
	if _, ok := o.(*v1.Provider); ok {
		w.Test = annotations[v1.TestAnnotation]
	}
	return w
}

// handledFields returns the fields of an object's status that show the last handled requests. An Alert has none for a test.
func handledFields(o kube.Object) (replay, test *string) {
	switch o := o.(type) {
	case *v1.Alert:
		return &o.Status.LastHandledReplay, new(string)
	case *v1.Provider:
		return &o.Status.LastHandledReplay, &o.Status.LastHandledTest
	}
	return new(string), new(string)
}

// serveAsks acts on the new annotation values of one object.
func (k *kindOf[T]) serveAsks(ctx context.Context, key kube.Key) error {
	o, ok := k.objects.Get(key)
	if !ok || !k.leads() || o.GetDeletionTimestamp() != nil {
		return nil // the next leader enqueues all
	}
	w := wants(o)
	if w.Replay == "" && w.Test == "" {
		return nil
	}
	use, free := k.serving.TryAcquire(key.Namespace, 1)
	if !free {
		k.askQueue.EnqueueAfter(key, askPause)
		return nil
	}
	defer use.Release()
	was, err := k.handled(ctx, o)
	if err != nil {
		return err
	}
	var failed error
	for _, one := range []struct {
		value, refused string
		last           *string
		act            func(context.Context, T, string) error
	}{{w.Replay, notReplayed, &was.Replay, k.replay}, {w.Test, notTested, &was.Test, k.test}} {
		if one.value == "" || mark(one.value) == *one.last {
			continue
		}
		if !k.servable(o) { // it would be served as the object was before, or as a former one of its name
			return cmp.Or(failed, kube.ErrNotYet)
		}
		acting, cancel := context.WithTimeout(ctx, askTimeout)
		err := one.act(acting, o, one.value)
		cancel()
		if !k.leads() {
			return nil // the next leader may have handled a newer value
		}
		refusal, ok := errors.AsType[*event.Error](err)
		switch {
		case ok && refusal.Class == event.Permanent:
			k.tell(o, false, one.refused, refusal.Reason)
		case ok && refusal.RetryAfter > 0:
			k.askQueue.EnqueueAfter(key, refusal.RetryAfter)
			continue
		case err != nil:
			failed = err // it holds up no request of the other kind
			continue
		}
		*one.last = mark(one.value)
		if err := k.note(ctx, key, was); err != nil {
			return err
		}
	}
	return failed
}

// servable reports whether an object is compiled as it is, and the Provider of an Alert as well.
func (k *kindOf[T]) servable(o T) bool {
	if alert, ok := any(o).(*v1.Alert); ok {
		p, exists := k.providers.objects.Get(kube.Key{Namespace: o.GetNamespace(), Name: alert.Spec.ProviderRef.Name})
		if exists && !k.providers.compiledAs(p) {
			return false
		}
	}
	return k.compiledAs(o)
}

// handled returns the last handled values of an object, from the feed, else from its status.
func (k *kindOf[T]) handled(ctx context.Context, o T) (asked, error) {
	uid := string(o.GetUID())
	value, err := k.options.Health.Get(ctx, k.askedKey(kube.KeyOf(o)))
	if err != nil {
		return asked{}, err
	}
	var was asked
	if value != nil && json.Unmarshal(value, &was) == nil && was.UID == uid {
		return was, nil
	}
	replay, test := handledFields(o)
	return asked{UID: uid, Replay: *replay, Test: *test}, nil
}

// note stores the last handled values of an object, while this replica leads: a request that is not noted is served again.
func (k *kindOf[T]) note(ctx context.Context, key kube.Key, was asked) error {
	value, err := json.Marshal(was)
	if err != nil { // strings always encode
		panic(err)
	}
	for {
		err := k.options.Health.Put(ctx, k.askedKey(key), value)
		if err == nil || fair.Sleep(ctx, askPause) != nil || !k.leads() {
			return err
		}
	}
}

// replay acts on v1.ReplayAnnotation.
func (k *kindOf[T]) replay(ctx context.Context, o T, value string) error {
	r, err := parseReplay(value, time.Now())
	if err != nil {
		return event.NewError(event.Permanent, notReplayed, fmt.Sprintf("annotation %s: %v", v1.ReplayAnnotation, err), err)
	}
	if k.name == v1.AlertKind {
		r.Alert = o.GetName()
	} else {
		r.Provider = o.GetName()
	}
	result, err := k.options.Requests().Replay(ctx, o.GetNamespace(), r)
	if err != nil {
		return err
	}
	reason := replayedEvent
	if result.Replayed == 0 {
		reason = notReplayed
	}
	k.tell(o, result.NotReplayed == 0, reason, replayTold(result))
	return nil
}

// test acts on v1.TestAnnotation. Its error is also that of a Provider that is not compiled yet.
func (k *kindOf[T]) test(ctx context.Context, o T, value string) error {
	result, err := k.options.Requests().Test(ctx, o.GetNamespace(), view.TestRequest{Provider: o.GetName(), Value: value})
	if err != nil {
		return err
	}
	k.tell(o, true, testedEvent, "a test message is on its way, delivery "+result.DeliveryID)
	return nil
}

// replayTold returns the text for the owner about a replay's result.
func replayTold(r view.ReplayResult) string {
	if r.Replayed == 0 && r.NotReplayed == 0 && !r.More {
		return "nothing that is kept is selected, and nothing is sent again"
	}
	told := []string{numbered(r.Replayed, "delivery is on its way again", "deliveries are on their way again")}
	if r.NotReplayed > 0 {
		told = append(told, fmt.Sprintf("%d could not be replayed", r.NotReplayed))
		for _, id := range slices.Sorted(maps.Keys(r.Refused))[:min(len(r.Refused), maxRefusalsTold)] {
			told = append(told, id+": "+r.Refused[id])
		}
	}
	if r.More {
		told = append(told, "there are more: set the annotation to another value")
	}
	return strings.Join(told, "; ")
}
