package kube_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

var v1GetOptions = metav1.GetOptions{}

// runInformer runs an informer inside the bubble until the returned function is called.
func runInformer(t *testing.T, i *kube.Informer[*v1.Receiver]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { i.Run(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

func TestAnInformerFindsByIndexAndKeepsNoBallast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newReceiver("a"), newReceiver("b")
		a.Spec.Type, b.Spec.Type, b.Namespace = "github", "gitlab", "team-b"
		a.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		a.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"}
		_, resource := newCluster(t, a, b)
		i := kube.NewInformer(resource, "", kube.Indexers[*v1.Receiver]{
			"type": func(r *v1.Receiver) []string { return []string{r.Spec.Type} },
		}, discard())
		defer runInformer(t, i)()
		<-i.Synced()
		got, ok := i.Get(kube.KeyOf(a))
		if !ok || got.ManagedFields != nil || len(got.Annotations) != 1 {
			t.Errorf("cached: %+v, %t", got, ok)
		}
		if found := i.By("type", "gitlab"); len(found) != 1 || found[0].Name != "b" {
			t.Errorf("by type: %v", found)
		}
		if found := i.InNamespace("team-a"); len(found) != 1 || found[0].Name != "a" {
			t.Errorf("in namespace: %v", found)
		}
		if n := len(i.All()); n != 2 {
			t.Errorf("all: %d", n)
		}
	})
}

func TestAnInformerOfOneNamespaceAsksForNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, resource := newCluster(t, newReceiver("a"))
		i := kube.NewInformer(resource, "team-a", nil, discard())
		stop := runInformer(t, i)
		<-i.Synced()
		stop()
		for _, action := range cluster.Actions() {
			if action.GetNamespace() != "team-a" {
				t.Errorf("%s in namespace %q", action.GetVerb(), action.GetNamespace())
			}
		}
	})
}

// Fails when a missing CRD ends the informer, or fills the log with a line an attempt.
func TestAKindThatIsNotServedIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cluster, resource := newCluster(t, newReceiver("a"))
		var served atomic.Bool
		cluster.PrependReactor("list", "receivers", func(clienttesting.Action) (bool, runtime.Object, error) {
			if served.Load() {
				return false, nil, nil
			}
			return true, nil, apierrors.NewNotFound(v1.Resource("receivers").GroupResource(), "")
		})
		i := kube.NewInformer(resource, "", nil, slog.New(slog.NewTextHandler(&log, nil)))
		defer runInformer(t, i)()
		pass(50 * time.Second)
		synctest.Wait()
		if closed(i.Synced()) {
			t.Error("synced although the kind is not served")
		}
		if n := strings.Count(log.String(), "waiting for its custom resource definition"); n != 1 {
			t.Errorf("told %d times within a minute, want once:\n%s", n, log.String())
		}
		served.Store(true)
		pass(2 * time.Minute)
		synctest.Wait()
		if !closed(i.Synced()) {
			t.Error("not synced two minutes after the kind is served")
		}
	})
}

func TestOtherTroubleIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cluster, resource := newCluster(t)
		cluster.PrependReactor("list", "receivers", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("the server is away")
		})
		i := kube.NewInformer(resource, "", nil, slog.New(slog.NewTextHandler(&log, nil)))
		stop := runInformer(t, i)
		pass(time.Second)
		stop()
		if !strings.Contains(log.String(), "the server is away") {
			t.Errorf("log: %s", log.String())
		}
	})
}

// Fails when every object is reconciled again, though none changed, because the API server no longer knows the changes since the last
// list: after an outage of a large cluster that is tens of thousands at once.
func TestAListThatRepeatsWhatIsKnownReconcilesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newReceiver("a"), newReceiver("b")
		a.ResourceVersion, b.ResourceVersion = "1", "2"
		cluster, resource := newCluster(t, a, b)
		watches := make(chan *watch.FakeWatcher, 2)
		cluster.PrependWatchReactor("receivers", func(clienttesting.Action) (bool, watch.Interface, error) {
			w := watch.NewFake()
			watches <- w
			return true, w, nil
		})
		i := kube.NewInformer(resource, "", nil, discard())
		reconciled := make(chan kube.Key, 10)
		c := kube.NewController(kube.ControllerOptions[kube.Key]{
			Workers: 1, Parts: kube.Key.Parts, Log: discard(),
			Reconcile: func(_ context.Context, k kube.Key) error {
				reconciled <- k
				return nil
			},
		})
		kube.Watch(c, i, kube.Self[*v1.Receiver], nil)
		defer runInformer(t, i)()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { c.Run(ctx) })
		first := <-watches
		synctest.Wait()
		if n := len(reconciled); n != 2 {
			t.Errorf("reconciled at first: %d", n)
		}
		changed := b.DeepCopy()
		changed.ResourceVersion = "4"
		if err := cluster.Tracker.Update(v1.Resource("receivers"), changed, b.Namespace); err != nil {
			t.Fatal(err)
		}
		first.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
		<-watches // so it was listed again
		synctest.Wait()
		if n := len(reconciled); n != 3 {
			t.Errorf("reconciled after a list that has one change: %d, want the 2 of the first and 1", n)
		}
	})
}
