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
	alertAsked    = v1beta3.AlertKind + askedSuffix
	providerAsked = v1beta3.ProviderKind + askedSuffix
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
	// askWorkers is the number of requests that are served at once, at most one of each namespace. askTimeout ends a request. askPause
	// delays another request of a namespace that is being served.
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

// asker names an Alert or a Provider that may request something.
type asker struct {
	kind string
	key  kube.Key
}

func (k asker) parts() (namespace, name string) { return k.key.Namespace, k.kind + "/" + k.key.Name }

// feedKey returns the feed's key of the last handled requests.
func (k asker) feedKey() string { return k.kind + askedSuffix + "/" + k.key.String() }

// asks acts on the annotations of Alerts and Providers, once for each value, while this replica leads. It stores a value after the request
// succeeded. A crash in between repeats the request, under the same delivery IDs.
type asks struct {
	*Reconciler
	queue *kube.Controller[asker]
	// serving has the namespaces whose requests are being served.
	serving *fair.Capacities[string]
}

func newAsks(r *Reconciler) *asks {
	a := &asks{Reconciler: r, serving: fair.NewCapacities[string](nil, 1, 0)}
	a.queue = kube.NewController(kube.ControllerOptions[asker]{
		Workers: askWorkers, Parts: asker.parts, Reconcile: a.reconcile, Log: r.log.With("stage", "asks"),
	})
	return a
}

// watchAsks feeds the queue with the objects of a kind that request something.
func watchAsks[T kube.Object](a *asks, k *kindOf[T]) {
	kube.Watch(a.queue, k.objects, func(o T) []asker {
		if w := wants(o); w.Replay == "" && w.Test == "" {
			return nil
		}
		return []asker{{k.name, kube.KeyOf(o)}}
	}, specChanged[T])
}

// wants returns the requests of an object's annotations.
func wants(o kube.Object) asked {
	annotations := o.GetAnnotations()
	w := asked{UID: string(o.GetUID()), Replay: annotations[v1.ReplayAnnotation]}
	if _, ok := o.(*v1beta3.Provider); ok {
		w.Test = annotations[v1.TestAnnotation]
	}
	return w
}

// handledFields returns the fields of an object's status that show the last handled requests. An Alert has none for a test.
func handledFields(o kube.Object) (replay, test *string) {
	switch o := o.(type) {
	case *v1beta3.Alert:
		return &o.Status.LastHandledReplay, new(string)
	case *v1beta3.Provider:
		return &o.Status.LastHandledReplay, &o.Status.LastHandledTest
	}
	return new(string), new(string)
}

// enqueueAll enqueues all objects that may request something. It is called when this replica begins to lead.
func (a *asks) enqueueAll() {
	for _, kind := range []string{v1beta3.AlertKind, v1beta3.ProviderKind} {
		for _, k := range a.kinds[kind].keysIn("") {
			a.queue.Enqueue(asker{kind, k})
		}
	}
}

// reconcile acts on the new annotation values of one object.
func (a *asks) reconcile(ctx context.Context, k asker) error {
	o, ok := a.kinds[k.kind].get(k.key)
	if !ok || !a.leads() || o.GetDeletionTimestamp() != nil {
		return nil // the next leader enqueues all
	}
	w := wants(o)
	if w.Replay == "" && w.Test == "" {
		return nil
	}
	use, free := a.serving.TryAcquire(k.key.Namespace, 1)
	if !free {
		a.queue.EnqueueAfter(k, askPause)
		return nil
	}
	defer use.Release()
	was, err := a.handled(ctx, k, o)
	if err != nil {
		return err
	}
	var failed error
	for _, one := range []struct {
		value, refused string
		last           *string
		act            func(context.Context, asker, kube.Object, string) error
	}{{w.Replay, notReplayed, &was.Replay, a.replay}, {w.Test, notTested, &was.Test, a.test}} {
		if one.value == "" || mark(one.value) == *one.last {
			continue
		}
		if !a.kinds[k.kind].compiledAs(o) { // it would be served as the object was before, or as a former one of its name
			return cmp.Or(failed, kube.ErrNotYet)
		}
		acting, cancel := context.WithTimeout(ctx, askTimeout)
		err := one.act(acting, k, o, one.value)
		cancel()
		if !a.leads() {
			return nil // the next leader may have handled a newer value
		}
		refusal, ok := errors.AsType[*event.Error](err)
		switch {
		case ok && refusal.Class == event.Permanent:
			a.tell(k.kind, o, false, one.refused, refusal.Reason)
		case ok && refusal.RetryAfter > 0:
			a.queue.EnqueueAfter(k, refusal.RetryAfter)
			continue
		case err != nil:
			failed = err // it holds up no request of the other kind
			continue
		}
		*one.last = mark(one.value)
		if err := a.note(ctx, k, was); err != nil {
			return err
		}
	}
	return failed
}

// handled returns the last handled values of an object, from the feed, else from its status.
func (a *asks) handled(ctx context.Context, k asker, o kube.Object) (asked, error) {
	uid := string(o.GetUID())
	value, err := a.options.Health.Get(ctx, k.feedKey())
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
func (a *asks) note(ctx context.Context, k asker, was asked) error {
	value, err := json.Marshal(was)
	if err != nil { // strings always encode
		panic(err)
	}
	for {
		err := a.options.Health.Put(ctx, k.feedKey(), value)
		if err == nil || fair.Sleep(ctx, askPause) != nil || !a.leads() {
			return err
		}
	}
}

// replay acts on v1.ReplayAnnotation.
func (a *asks) replay(ctx context.Context, k asker, o kube.Object, value string) error {
	r, err := parseReplay(value, time.Now())
	if err != nil {
		return event.NewError(event.Permanent, notReplayed, fmt.Sprintf("annotation %s: %v", v1.ReplayAnnotation, err), err)
	}
	if k.kind == v1beta3.AlertKind {
		r.Alert = k.key.Name
	} else {
		r.Provider = k.key.Name
	}
	result, err := a.options.Requests.Replay(ctx, k.key.Namespace, r)
	if err != nil {
		return err
	}
	reason := replayedEvent
	if result.Replayed == 0 {
		reason = notReplayed
	}
	a.tell(k.kind, o, len(result.Refused) == 0, reason, replayTold(result))
	return nil
}

// test acts on v1.TestAnnotation. Its error is also that of a Provider that is not compiled yet.
func (a *asks) test(ctx context.Context, k asker, o kube.Object, value string) error {
	result, err := a.options.Requests.Test(ctx, k.key.Namespace, view.TestRequest{Provider: k.key.Name, Value: value})
	if err != nil {
		return err
	}
	a.tell(k.kind, o, true, testedEvent, "a test message is on its way, delivery "+result.DeliveryID)
	return nil
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
