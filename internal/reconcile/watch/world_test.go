package watch

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

var (
	kustomizations = schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"}
	crdResource    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// world is a cluster, a bus and a sequence of watchers, in the bubble of one test.
type world struct {
	t         *testing.T
	dynamic   *dynamicfake.FakeDynamicClient
	discovery *fakeDiscovery
	bus       *fakeBus
	state     *fakeState
	listing   func(context.Context, *Kind) // of fakeObjects
	expiring  func() <-chan struct{}       // of fakeObjects
	hides     func() bool                  // of fakeObjects
	version   int
	log       slog.Handler
	leader    *Watcher    // the last that began to lead
	replaced  atomic.Bool // the leader's term is over, and its context goes on
}

func newWorld(t *testing.T) *world {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{crdResource: definitions.Kind + "List"}
	for _, k := range kinds {
		for _, v := range []string{"v1", "v2"} {
			lists[schema.GroupVersionResource{Group: k.Group, Version: v, Resource: k.Resource}] = k.Kind + "List"
		}
	}
	w := &world{
		t:         t,
		dynamic:   dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists),
		discovery: &fakeDiscovery{served: map[string][]string{}},
		bus:       &fakeBus{ids: map[string]bool{}},
		state:     &fakeState{values: map[string]fakeValue{}},
		log:       slog.DiscardHandler,
	}
	return w
}

// define makes the cluster serve a kind in the versions given, the preferred one first.
func (w *world) define(name string, versions ...string) {
	w.t.Helper()
	kind := kindNamed(name)
	w.discovery.serve(kind, versions...)
	w.version++
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": definitions.Kind, "metadata": map[string]any{
			"name": kind.crd(), "uid": fmt.Sprint("crd-", w.version), "resourceVersion": fmt.Sprint(w.version),
		},
	}}
	tracker := w.dynamic.Tracker()
	if _, err := tracker.Get(crdResource, "", crd.GetName()); err == nil {
		w.must(tracker.Update(crdResource, crd, ""))
		return
	}
	w.must(tracker.Create(crdResource, crd, ""))
}

func (w *world) undefine(name string) {
	w.t.Helper()
	kind := kindNamed(name)
	w.discovery.serve(kind)
	w.must(w.dynamic.Tracker().Delete(crdResource, "", kind.crd()))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// watcher returns a watcher that does not run, over a running catalogue.
func (w *world) watcher() *Watcher {
	w.t.Helper()
	catalogue := kube.NewCatalogue(w.discovery)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := catalogue.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(func() { cancel(); running.Wait() })
	watcher, err := New(Options{
		Objects: fakeObjects{w.dynamic, w.listing, w.expiring, w.hides}, Catalogue: catalogue, Events: w.bus, State: w.state,
		Log: slog.New(w.log), Registerer: prometheus.NewRegistry(),
	})
	w.must(err)
	return watcher
}

// replica runs a watcher, leading unless follower is set; stop ends it as a crash does: at once.
func (w *world) replica(lead bool) (watcher *Watcher, stop func()) {
	w.t.Helper()
	watcher = w.watcher()
	ctx, cancel := context.WithCancel(event.WithFence(context.Background(), func() bool { return !w.replaced.Load() }))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := watcher.Run(ctx, begun); err != nil {
			w.t.Error(err)
		}
	})
	if lead {
		w.leader = watcher
		wg.Go(func() {
			if err := watcher.Lead(ctx); err != nil {
				w.t.Error(err)
			}
		})
	}
	synctest.Wait()
	return watcher, func() { cancel(); wg.Wait() }
}

// silent runs a leader over the first state of the cluster, so that transitions of all its kinds are published from then on.
func (w *world) silent() (stop func()) {
	w.t.Helper()
	stop = w.next()
	if got := w.bus.told(); len(got) > 0 {
		w.t.Fatalf("the first start told %v", got)
	}
	return stop
}

// next runs the next worker, and passes its first minute.
func (w *world) next() (stop func()) {
	_, stop = w.replica(true)
	pass(time.Minute)
	return stop
}

// led runs a test in which a leader has recorded the first state of the Kustomization "app", which is Ready at revision r1.
func led(t *testing.T, play func(t *testing.T, w *world)) {
	t.Helper()
	restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
		defer stop()
		play(t, w)
	})
}

// restarted runs a test of workers that follow one another. The first has recorded the first state of a Kustomization; stop ends it.
func restarted(t *testing.T, first kustomization, play func(t *testing.T, w *world, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		w.put(first)
		play(t, w, w.silent())
	})
}

// pass advances the bubble's clock by d and waits until all goroutines are idle.
func pass(d time.Duration) {
	<-time.After(d) // in the bubble of the test: no real time passes
	synctest.Wait()
}

// kustomization describes an object; its zero values are Ready at revision r1.
type kustomization struct {
	name, uid, revision, reason, message string
	failed, unknown, reconciling         bool
	fault                                string // of another condition
	since                                time.Time
	labels, annotations                  map[string]string
}

func (w *world) object(k kustomization) *unstructured.Unstructured {
	w.version++
	status, revision := "True", "lastAppliedRevision"
	if k.failed {
		status, revision = "False", "lastAttemptedRevision"
	}
	if k.unknown {
		status = "Unknown"
	}
	set := func(v *string, otherwise string) {
		if *v == "" {
			*v = otherwise
		}
	}
	set(&k.name, "app")
	set(&k.uid, "uid-1")
	set(&k.revision, "r1")
	set(&k.reason, "Reconciled")
	if k.since.IsZero() {
		k.since = time.Now()
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
		"metadata": map[string]any{"generation": int64(1)},
		"status": map[string]any{
			revision: k.revision,
			"conditions": []any{map[string]any{
				"type": "Ready", "status": status, "reason": k.reason, "message": k.message,
				"lastTransitionTime": k.since.Format(time.RFC3339), "observedGeneration": int64(1),
			}},
		},
	}}
	conditions := u.Object["status"].(map[string]any)["conditions"].([]any)
	if k.fault != "" {
		conditions = append(conditions, map[string]any{"type": "Released", "status": "False", "message": k.fault})
	}
	if k.reconciling {
		conditions = append(conditions, map[string]any{"type": "Reconciling", "status": "True"})
	}
	u.Object["status"].(map[string]any)["conditions"] = conditions
	u.SetNamespace("team-a")
	u.SetName(k.name)
	u.SetUID(types.UID(k.uid))
	u.SetResourceVersion(fmt.Sprint(w.version))
	u.SetLabels(k.labels)
	u.SetAnnotations(k.annotations)
	return u
}

// put creates or updates an object in the cluster.
func (w *world) put(k kustomization) {
	w.t.Helper()
	u := w.object(k)
	tracker := w.dynamic.Tracker()
	if _, err := tracker.Get(kustomizations, "team-a", u.GetName()); err == nil {
		w.must(tracker.Update(kustomizations, u, "team-a"))
	} else {
		w.must(tracker.Create(kustomizations, u, "team-a"))
	}
	synctest.Wait()
}

func (w *world) remove(name string) {
	w.t.Helper()
	w.must(w.dynamic.Tracker().Delete(kustomizations, "team-a", name))
	synctest.Wait()
}

// postRecord returns the record of an accepted POST about the object "app", in the form that its controller sends.
func postRecord(outcome event.Outcome, uid, revision string) *event.Record {
	severity := event.SeverityInfo
	if outcome == event.OutcomeFailed {
		severity = event.SeverityError
	}
	return &event.Record{
		ID: fmt.Sprint("post-", time.Now().UnixNano()),
		Event: event.Event{
			InvolvedObject: event.ObjectReference{
				APIVersion: "kustomize.toolkit.fluxcd.io/v1", Kind: "Kustomization", Namespace: "team-a", Name: "app", UID: uid,
			},
			Severity: severity, Timestamp: time.Now(), Metadata: map[string]string{"kustomize.toolkit.fluxcd.io/revision": revision},
		},
		Source: event.SourcePost, Outcome: outcome, Known: true, Accepted: time.Now(),
	}
}

// accept publishes a POST as the events endpoint does.
func (w *world) accept(r *event.Record) {
	w.t.Helper()
	_, err := w.bus.PublishEvent(context.Background(), r)
	w.must(err)
	synctest.Wait()
}

// begun is closed: the objects may be read at once.
var begun = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
