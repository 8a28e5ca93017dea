package kube_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/kube/kubetest"
)

func observe(generation int64) func(*v1.Receiver) {
	return func(r *v1.Receiver) { r.Status.ObservedGeneration = generation }
}

func TestAStatusIsWrittenOnlyIfItChanges(t *testing.T) {
	cached := newReceiver("r0")
	cluster, resource := newCluster(t, cached)
	w := kube.NewStatusWriter(resource)
	for _, want := range []bool{true, false} {
		wrote, err := w.Write(t.Context(), cached, observe(1))
		if err != nil || wrote != want {
			t.Fatalf("got %t, %v, want %t", wrote, err, want)
		}
		live, err := resource.In("team-a").Get(t.Context(), "r0", v1GetOptions)
		if err != nil {
			t.Fatal(err)
		}
		if cached.Status.ObservedGeneration != 0 && want {
			t.Error("the cached object was changed")
		}
		cached = live
	}
	if n := updates(cluster.Actions()); n != 1 {
		t.Errorf("updates: got %d, want 1", n)
	}
}

func updates(actions []clienttesting.Action) int {
	n := 0
	for _, a := range actions {
		if a.GetVerb() == "update" && a.GetSubresource() == "status" {
			n++
		}
	}
	return n
}

func TestAConflictIsReturnedAsItIs(t *testing.T) {
	cluster, resource := newCluster(t, newReceiver("r0"))
	cluster.PrependReactor("update", "receivers", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(v1.Resource("receivers").GroupResource(), "r0", errors.New("changed"))
	})
	if _, err := kube.NewStatusWriter(resource).Write(t.Context(), newReceiver("r0"), observe(1)); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
}

// newWithoutStatus returns a cluster whose Receivers have no status subresource until status is true, and a writer of their statuses.
func newWithoutStatus(t *testing.T) (cluster *kubetest.Cluster, w *kube.StatusWriter[*v1.Receiver], status *bool) {
	t.Helper()
	cluster, resource := newCluster(t, newReceiver("r0"))
	status = new(bool)
	cluster.PrependReactor("update", "receivers", func(clienttesting.Action) (bool, runtime.Object, error) {
		if *status {
			return false, nil, nil
		}
		return true, nil, apierrors.NewNotFound(v1.Resource("receivers").GroupResource(), "r0")
	})
	return cluster, kube.NewStatusWriter(resource), status
}

// Flux's own CRDs give Alert and Provider no status subresource. Fails when the answer 404 is an error, or is not remembered.
func TestAKindWithoutStatusIsRememberedQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, w, status := newWithoutStatus(t)
		for range 3 {
			if wrote, err := w.Write(t.Context(), newReceiver("r0"), observe(1)); wrote || err != nil {
				t.Fatalf("got %t, %v", wrote, err)
			}
		}
		if n := updates(cluster.Actions()); n != 1 || w.HasStatus() {
			t.Errorf("updates: got %d, want 1; has status: %t", n, w.HasStatus())
		}
		*status = true // our CRDs were installed over Flux's
		pass(11 * time.Minute)
		if wrote, err := w.Write(t.Context(), newReceiver("r0"), observe(1)); !wrote || err != nil {
			t.Errorf("after the CRD was replaced: got %t, %v", wrote, err)
		}
	})
}

// One of several API servers may be behind when a CRD is replaced. Fails when one such answer keeps the statuses of a kind from being written for
// long, or when a kind without status is tried often.
func TestAKindThatLacksItsStatusForAMomentIsTriedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, w, status := newWithoutStatus(t)
		write := func() (wrote bool) {
			for range 4 { // as many workers
				one, err := w.Write(t.Context(), newReceiver("r0"), observe(1))
				if err != nil {
					t.Fatal(err)
				}
				wrote = wrote || one
			}
			return wrote
		}
		for range 2 { // the second time after it was written
			*status = false
			write()
			*status = true
			pass(11 * time.Second)
			if !write() {
				t.Error("not written eleven seconds later")
			}
		}
		*status = false
		before := updates(cluster.Actions())
		for range 12 * 60 {
			write()
			pass(5 * time.Second)
		}
		if n := updates(cluster.Actions()) - before; n > 15 {
			t.Errorf("tried %d times in an hour", n)
		}
	})
}

func TestAnObjectThatIsGoneIsNoKindWithoutStatus(t *testing.T) {
	_, resource := newCluster(t)
	w := kube.NewStatusWriter(resource)
	if wrote, err := w.Write(t.Context(), newReceiver("r0"), observe(1)); wrote || err != nil {
		t.Fatalf("got %t, %v", wrote, err)
	}
	if !w.HasStatus() {
		t.Error("taken for a kind without status")
	}
}
