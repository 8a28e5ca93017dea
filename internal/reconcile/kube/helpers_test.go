package kube_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/kube/kubetest"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func newCluster(t *testing.T, objects ...runtime.Object) (*kubetest.Cluster, kube.Resource[*v1.Receiver]) {
	t.Helper()
	cluster, receivers, err := clusterOf(newScheme(t), objects...)
	if err != nil {
		t.Fatal(err)
	}
	return cluster, receivers
}

func clusterOf(
	scheme *runtime.Scheme, objects ...runtime.Object,
) (*kubetest.Cluster, kube.Resource[*v1.Receiver], error) {
	cluster, err := kubetest.NewCluster(scheme, objects...)
	if err != nil {
		return nil, kube.Resource[*v1.Receiver]{}, err
	}
	return cluster, kubetest.Resource(cluster, v1.Resource("receivers"), v1.ReceiverKind, func() *v1.Receiver { return &v1.Receiver{} }), nil
}

func newReceiver(name string) *v1.Receiver {
	return &v1.Receiver{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.ReceiverKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID("uid-" + name), Generation: 1},
	}
}

func newReceivers(n int) []runtime.Object {
	objects := make([]runtime.Object, n)
	for i := range objects {
		objects[i] = newReceiver(fmt.Sprintf("r%d", i))
	}
	return objects
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// pass lets time pass in a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }
