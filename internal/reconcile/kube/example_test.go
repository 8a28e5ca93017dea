package kube_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

// A controller reconciles each object of an informer, and retries until that succeeds. All controllers have this form: the constructors
// register and start nothing, handlers enqueue keys, Reconcile reads the present state, and Run ends with its context.
func ExampleController() {
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		fmt.Println(err)
		return
	}
	_, receivers, err := clusterOf(scheme, newReceiver("github"), newReceiver("gitlab"))
	if err != nil {
		fmt.Println(err)
		return
	}
	informer := kube.NewInformer(receivers, "", nil, discard())
	var mu sync.Mutex
	tried := map[kube.Key]int{}
	controller := kube.NewController(kube.ControllerOptions[kube.Key]{
		Workers: 2, Parts: kube.Key.Parts, Log: slog.New(slog.DiscardHandler),
		Reconcile: func(_ context.Context, key kube.Key) error {
			if _, exists := informer.Get(key); !exists {
				return nil // the results of the object are removed here
			}
			mu.Lock()
			defer mu.Unlock()
			if tried[key]++; key.Name == "gitlab" && tried[key] == 1 {
				return errors.New("not reachable") // it is reconciled again, after a pause
			}
			return nil
		},
	})
	kube.Watch(controller, informer, kube.Self[*v1.Receiver], nil)

	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { informer.Run(ctx) })
	running.Go(func() { controller.Run(ctx) })
	<-controller.Synced()
	cancel()
	running.Wait()
	for _, name := range []string{"github", "gitlab"} {
		fmt.Println(name, "was reconciled in try", tried[kube.Key{Namespace: "team-a", Name: name}])
	}
	// Output:
	// github was reconciled in try 1
	// gitlab was reconciled in try 2
}
