package reconcile

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	leasev1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	clienttesting "k8s.io/client-go/testing"

	"notifier/internal/event"
)

func newLeader(t *testing.T, core *fake.Clientset, identity string) *Leader {
	t.Helper()
	l, err := NewLeader(LeaderOptions{
		Enabled: true, Leases: core.CoordinationV1(), Namespace: "flux-system", Identity: identity,
		LeaseDuration: 35 * time.Second, RenewDeadline: 30 * time.Second, RetryPeriod: 5 * time.Second, ReleaseOnCancel: true,
		Log: discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestWithoutElectionTheProcessAlwaysLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := NewLeader(LeaderOptions{Log: discard()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		led := false
		go func() {
			ended <- l.Run(ctx, func(context.Context) error { return nil }, func(ctx context.Context) error {
				led = l.Leading()
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		synctest.Wait()
		if !led || !l.Leading() {
			t.Error("does not lead")
		}
		stop()
		if err := <-ended; err != nil || l.Leading() {
			t.Errorf("after the end: %v, leading %t", err, l.Leading())
		}
	})
}

// Fails when the Lease is given up before the tasks have ended (they would run twice), or is not given up at all.
func TestTheNextLeaderStartsWhenTheTasksOfTheLastHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := fake.NewClientset()
		var running atomic.Int32
		task := func(ctx context.Context) error {
			if running.Add(1) > 1 {
				t.Error("two replicas lead at once")
			}
			<-ctx.Done()
			<-time.After(time.Minute) // ends slowly, so that the Lease would expire if it were not renewed meanwhile
			running.Add(-1)
			return nil
		}
		first, second := newLeader(t, core, "a"), newLeader(t, core, "b")
		ctxA, stopA := context.WithCancel(t.Context())
		ctxB, stopB := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := first.Run(ctxA, task); err != nil {
				t.Error(err)
			}
		})
		pass(time.Second)
		wg.Go(func() {
			if err := second.Run(ctxB, task); err != nil {
				t.Error(err)
			}
		})
		pass(2 * time.Minute)
		if !first.Leading() || second.Leading() {
			t.Fatalf("leading: %t, %t", first.Leading(), second.Leading())
		}
		stopA()
		pass(time.Minute + 15*time.Second)
		if first.Leading() || !second.Leading() {
			t.Errorf("after the first stopped: leading %t, %t", first.Leading(), second.Leading())
		}
		stopB()
		wg.Wait()
	})
}

// outage is a client of Leases whose requests fail while it lasts, at once or by never being answered.
type outage struct {
	coordinationv1.LeaseInterface
	lasts   *atomic.Bool
	silence bool
}

func (o outage) Leases(string) coordinationv1.LeaseInterface { return o }

func (o outage) err(ctx context.Context) error {
	if !o.lasts.Load() {
		return nil
	}
	if o.silence {
		<-ctx.Done()
		return ctx.Err()
	}
	return errors.New("connection refused")
}

func (o outage) Get(ctx context.Context, name string, options metav1.GetOptions) (*leasev1.Lease, error) {
	if err := o.err(ctx); err != nil {
		return nil, err
	}
	return o.LeaseInterface.Get(ctx, name, options)
}

func (o outage) Update(ctx context.Context, lease *leasev1.Lease, options metav1.UpdateOptions) (*leasev1.Lease, error) {
	if err := o.err(ctx); err != nil {
		return nil, err
	}
	return o.LeaseInterface.Update(ctx, lease, options)
}

// Fails when a leader that cannot renew goes on beyond the Lease (as it does while client-go tries to give the Lease up), or does
// not stand again.
func TestALeaderThatCannotRenewStopsInTime(t *testing.T) {
	for name, silence := range map[string]bool{"requests fail": false, "requests are never answered": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var away atomic.Bool
				core := fake.NewClientset()
				l := newLeader(t, core, "a")
				l.Leases = outage{core.CoordinationV1().Leases("flux-system"), &away, silence}
				ctx, stop := context.WithCancel(t.Context())
				terms := 0
				ended := make(chan error)
				go func() {
					ended <- l.Run(ctx, func(ctx context.Context) error {
						terms++
						<-ctx.Done()
						return ctx.Err()
					})
				}()
				pass(time.Minute)
				away.Store(true)
				pass(36 * time.Second)
				if l.Leading() {
					t.Error("leads on after the Lease has expired")
				}
				away.Store(false)
				pass(2 * time.Minute)
				if !l.Leading() || terms != 2 {
					t.Errorf("leading %t in term %d", l.Leading(), terms)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// stoppedClient is a client of Leases whose requests end for no reason while the process that makes them is stopped, as it seems to
// whoever waits for them.
type stoppedClient struct {
	coordinationv1.LeaseInterface
	stopped <-chan struct{} // closed when it goes on
	began   *atomic.Bool
}

func (c stoppedClient) Leases(string) coordinationv1.LeaseInterface { return c }

func (c stoppedClient) Update(ctx context.Context, lease *leasev1.Lease, options metav1.UpdateOptions) (*leasev1.Lease, error) {
	if c.began.Load() {
		<-c.stopped
		return nil, apierrors.NewConflict(leasev1.Resource("leases"), lease.Name, errors.New("another wrote it")) // the fake does not compare
	}
	return c.LeaseInterface.Update(ctx, lease, options)
}

// Fails when a leadership ends only when client-go says so: it is busy renewing until then, and another leads.
func TestALeaderThatWasStoppedLeadsNoMoreWhenTheNextOneDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := fake.NewClientset()
		first, second := newLeader(t, core, "a"), newLeader(t, core, "b")
		goOn := make(chan struct{})
		var stopped atomic.Bool
		first.Leases = stoppedClient{core.CoordinationV1().Leases("flux-system"), goOn, &stopped}
		var running atomic.Int32
		var fence func() bool
		task := func(ctx context.Context) error {
			if running.Add(1) > 1 {
				t.Error("two replicas lead at once")
			}
			if fence == nil {
				fence = event.FenceOf(ctx)
			}
			<-ctx.Done()
			running.Add(-1)
			return nil
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, l := range []*Leader{first, second} {
			wg.Go(func() {
				if err := l.Run(ctx, task); err != nil {
					t.Error(err)
				}
			})
			pass(time.Second)
		}
		if !first.Leading() || !fence() {
			t.Fatalf("the first leads %t, its fence says %t", first.Leading(), fence())
		}
		stopped.Store(true)
		pass(first.LeaseDuration)
		if fence() || first.Leading() {
			t.Errorf("after the Lease has lapsed: the first leads %t, its fence says %t", first.Leading(), fence())
		}
		pass(time.Minute)
		if !second.Leading() {
			t.Error("the second does not lead")
		}
		stopped.Store(false)
		close(goOn)
		pass(time.Minute)
		if first.Leading() || !second.Leading() {
			t.Errorf("leading: %t, %t", first.Leading(), second.Leading())
		}
		stop()
		wg.Wait()
	})
}

// Fails when a renewal that comes through after the Lease has lapsed makes it last longer: another may have led in between.
func TestALeaseThatHasLapsedIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := 0
		h := &heldLease{lasts: 30 * time.Second, lost: func() { lost++ }}
		h.renewed(time.Now())
		pass(20 * time.Second)
		h.renewed(time.Now())
		pass(20 * time.Second)
		if lost > 0 || !h.owned() {
			t.Fatalf("lost %d times though renewed; owned %t", lost, h.owned())
		}
		h.timer.Stop() // as if nothing ran
		pass(20 * time.Second)
		h.renewed(time.Now())
		if lost == 0 || h.owned() {
			t.Errorf("lost %d times; owned %t", lost, h.owned())
		}
		h.drop()
	})
}

func TestATaskThatFailsEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("bus is lost")
		other := false
		err := newLeader(t, fake.NewClientset(), "a").Run(t.Context(), func(context.Context) error { return broken },
			func(ctx context.Context) error {
				<-ctx.Done()
				other = true
				return nil
			})
		if !errors.Is(err, broken) || !other {
			t.Errorf("got %v; the other task ended: %t", err, other)
		}
	})
}

func TestACandidateStopsWithoutEverLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := fake.NewClientset()
		core.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("connection refused")
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := newLeader(t, core, "a").Run(ctx, func(context.Context) error { return errors.New("led") }); err != nil {
			t.Error(err)
		}
	})
}

func TestLeaderOptionsAreChecked(t *testing.T) {
	_, err := NewLeader(LeaderOptions{Enabled: true, Log: discard()})
	for _, want := range []string{"client of leases", "namespace or identity", "lease duration"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}
