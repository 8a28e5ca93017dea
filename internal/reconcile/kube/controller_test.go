package kube_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	v1 "notifier/api/v1"
	"notifier/internal/fair"
	"notifier/internal/reconcile/kube"
)

// scene runs one controller over one informer inside a bubble.
type scene struct {
	controller *kube.Controller[kube.Key]
	informer   *kube.Informer[*v1.Receiver]
	mu         sync.Mutex
	calls      map[kube.Key]int
	results    map[kube.Result]int
}

func (s *scene) called(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[kube.Key{Namespace: "team-a", Name: name}]
}

// play runs the controller over a cluster of receivers while test checks it.
func play(t *testing.T, receivers int, reconcile func(k kube.Key, call int) error, test func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{calls: map[kube.Key]int{}, results: map[kube.Result]int{}}
		_, resource := newCluster(t, newReceivers(receivers)...)
		s.informer = kube.NewInformer(resource, "", nil, discard())
		s.controller = kube.NewController(kube.ControllerOptions[kube.Key]{
			Workers: 4, Parts: kube.Key.Parts, Log: discard(),
			Observe: func(r kube.Result, _ time.Duration) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.results[r]++
			},
			Reconcile: func(_ context.Context, k kube.Key) error {
				s.mu.Lock()
				s.calls[k]++
				call := s.calls[k]
				s.mu.Unlock()
				return reconcile(k, call)
			},
		})
		kube.Watch(s.controller, s.informer, kube.Self[*v1.Receiver], nil)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { s.informer.Run(ctx) })
		wg.Go(func() { s.controller.Run(ctx) })
		synctest.Wait()
		test(s)
	})
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Fails when Synced is closed with the caches, or by the first key, instead of by the last.
func TestSyncedMeansThatEveryObjectWasReconciledOnce(t *testing.T) {
	hold := "r3"
	play(t, 20, func(k kube.Key, call int) error {
		if k.Name == hold && call < 3 {
			return errors.New("not yet")
		}
		return nil
	}, func(s *scene) {
		if closed(s.controller.Synced()) {
			t.Error("synced although one object was not reconciled")
		}
		<-s.controller.Synced()
		if got := s.called(hold); got != 3 {
			t.Errorf("calls of the failing object: got %d, want 3", got)
		}
		for k, n := range s.calls {
			if k.Name != hold && n != 1 {
				t.Errorf("%s was reconciled %d times, want once", k, n)
			}
		}
	})
}

func TestSyncedNeedsNoObjects(t *testing.T) {
	play(t, 0, func(kube.Key, int) error { return nil }, func(s *scene) {
		if !closed(s.controller.Synced()) {
			t.Error("not synced")
		}
	})
}

func TestAnErrorsKindDecidesRetryAndStartUp(t *testing.T) {
	resource := v1.Resource("receivers").GroupResource()
	for name, tc := range map[string]struct {
		err    error
		calls  int // within a minute; 0 for many
		synced bool
		result kube.Result
	}{
		"a permanent error is not tried again and does not hold the start up": {
			err: kube.Permanent(errors.New("never")), calls: 1, synced: true, result: kube.ResultPermanent,
		},
		"a conflict is tried again": {
			err: apierrors.NewConflict(resource, "r0", errors.New("changed")), result: kube.ResultConflict,
		},
		"any other error is tried again and holds the start up": {
			err: errors.New("away"), result: kube.ResultRetry,
		},
		"an isolated error is tried again and holds the start up for three attempts only": {
			err: kube.Isolated(errors.New("this one")), synced: true, result: kube.ResultRetry,
		},
		"what is for later is tried again then and does not hold the start up": {
			err: kube.Later(25 * time.Second), calls: 3, synced: true, result: kube.ResultRetry,
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 1, func(kube.Key, int) error { return tc.err }, func(s *scene) {
				pass(time.Minute)
				synctest.Wait()
				if got := s.called("r0"); (tc.calls > 0 && got != tc.calls) || (tc.calls == 0 && got < 5) {
					t.Errorf("calls: got %d, want %d", got, tc.calls)
				}
				if got := closed(s.controller.Synced()); got != tc.synced {
					t.Errorf("synced: got %t, want %t", got, tc.synced)
				}
				if len(s.results) != 1 || s.results[tc.result] == 0 {
					t.Errorf("results: got %v, want %s alone", s.results, tc.result)
				}
			})
		})
	}
}

// Fails when the panic is not recovered: one tenant's object would stop the process.
func TestAPanicIsAnErrorOfItsKey(t *testing.T) {
	play(t, 3, func(k kube.Key, _ int) error {
		if k.Name == "r1" {
			panic("poison")
		}
		return nil
	}, func(s *scene) {
		<-s.controller.Synced()
		if s.results[kube.ResultOK] != 2 || s.results[kube.ResultPermanent] != 1 {
			t.Errorf("results: got %v", s.results)
		}
	})
}

// Fails when the line about a panic does not say where it was: a report of it would be of no use. Fails also when it has the panic's value, which
// may quote a Secret.
func TestTheLineAboutAPanicSaysWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := kube.NewController(kube.ControllerOptions[kube.Key]{
			Workers: 1, Parts: kube.Key.Parts, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Reconcile: func(context.Context, kube.Key) error { panic("poison") },
		})
		c.Enqueue(kube.Key{Namespace: "team-a", Name: "r0"})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { c.Run(ctx) })
		synctest.Wait()
		cancel()
		wg.Wait()
		if line := log.String(); !strings.Contains(line, "name=r0") || !strings.Contains(line, "controller_test.go") || strings.Contains(line, "poison") {
			t.Errorf("the log says %s", line)
		}
	})
}

// Fails when the pause after a failure is as long as after many in a row, although the key was reconciled in between.
func TestASuccessBeginsThePausesAnew(t *testing.T) {
	const failures = 8
	play(t, 1, func(_ kube.Key, call int) error {
		if call <= failures || call == failures+2 {
			return errors.New("out of reach")
		}
		return nil
	}, func(s *scene) {
		pass(5 * time.Minute)
		s.controller.Enqueue(kube.Key{Namespace: "team-a", Name: "r0"})
		pass(time.Second)
		if got := s.called("r0"); got != failures+3 {
			t.Errorf("called %d times, want %d", got, failures+3)
		}
	})
}

func TestEnqueueAfterWaits(t *testing.T) {
	play(t, 1, func(kube.Key, int) error { return nil }, func(s *scene) {
		s.controller.EnqueueAfter(kube.Key{Namespace: "team-a", Name: "r0"}, time.Minute)
		pass(time.Minute - time.Second)
		synctest.Wait()
		if got := s.called("r0"); got != 1 {
			t.Errorf("calls before the time: got %d, want 1", got)
		}
		pass(2 * time.Second)
		synctest.Wait()
		if got := s.called("r0"); got != 2 {
			t.Errorf("calls after the time: got %d, want 2", got)
		}
	})
}

func TestRunEndsWhenTheCachesNeverSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, resource := newCluster(t)
		informer := kube.NewInformer(resource, "", nil, discard())
		c := kube.NewController(kube.ControllerOptions[kube.Key]{
			Workers: 1, Parts: kube.Key.Parts, Log: discard(),
			Reconcile: func(context.Context, kube.Key) error {
				t.Error("reconciled")
				return nil
			},
		})
		kube.Watch(c, informer, kube.Self[*v1.Receiver], nil)
		c.Enqueue(kube.Key{Namespace: "team-a", Name: "app"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c.Run(ctx)
	})
}

// Fails when the tombstone is not unwrapped: an object that was deleted while the process was disconnected would stay in use.
func TestATombstoneIsADeletion(t *testing.T) {
	gone := cache.DeletedFinalStateUnknown{Key: "team-a/r0", Obj: newReceiver("r0")}
	if got, ok := kube.Unwrap[*v1.Receiver](gone); !ok || got.Name != "r0" {
		t.Errorf("got %v, %t", got, ok)
	}
	if _, ok := kube.Unwrap[*v1.Receiver](cache.DeletedFinalStateUnknown{Key: "team-a/r0"}); ok {
		t.Error("a tombstone without an object gave one")
	}
	if got, ok := kube.Unwrap[*v1.Receiver](newReceiver("r1")); !ok || got.Name != "r1" {
		t.Errorf("got %v, %t", got, ok)
	}
}

// T6: a namespace's thousands of objects cannot be reconciled, as when the API server refuses their statuses. Fails when each attempt has a
// line in the log, when another namespace's failure has none, or when the omitted lines are not counted.
func TestT6TheLinesAboutANamespacesFailuresAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := kube.NewController(kube.ControllerOptions[kube.Key]{
			Workers: 1, Parts: kube.Key.Parts, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Reconcile: func(context.Context, kube.Key) error { return kube.Permanent(errors.New("refused")) },
		})
		const objects = fair.LineBurst + 500
		for i := range objects {
			c.Enqueue(kube.Key{Namespace: "team-a", Name: fmt.Sprint("r", i)})
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { c.Run(ctx) })
		synctest.Wait()
		c.Enqueue(kube.Key{Namespace: "team-b", Name: "other"})
		synctest.Wait()
		cancel()
		wg.Wait()
		if n := strings.Count(log.String(), "namespace=team-a"); n != fair.LineBurst {
			t.Errorf("%d lines about %d failures, want %d", n, objects, fair.LineBurst)
		}
		if !strings.Contains(log.String(), fmt.Sprint("namespace=team-b name=other result=permanent error=refused lines_left_out=", 500)) {
			t.Error("the failure of another namespace has no line with the number of those left out")
		}
	})
}
