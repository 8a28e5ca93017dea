package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v1 "notifier/api/v1"
	"notifier/internal/event"
)

// Fails when a replica asks for what Receivers' accounts may before it is the worker, or continues after its term.
func TestOnlyTheWorkerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		bus := newOneTermBus()
		w := newWorld(t, reviewing(t, f), func(o *Options) { o.Bus = bus })
		defer w.stop()
		asked := func() (n int) {
			for _, q := range f.questions(time.Time{}) {
				if q.namespace == "team" && q.resource == "gitrepositories" {
					n++
				}
			}
			return n
		}
		w.receiver("team", "hook", "weak", repo("app"))
		pass(time.Hour)
		if n := asked(); n > 0 {
			t.Errorf("asked %d times before the term", n)
		}
		w.wantShown("team/hook")
		close(bus.begin)
		pass(time.Minute)
		w.wantShown("team/hook", "Forbidden "+repositories+" app")
		before := asked()
		close(bus.end)
		w.receiver("team", "other", "weaker", repo("app"))
		pass(time.Hour)
		if n := asked() - before; n > 0 {
			t.Errorf("asked %d times after the term", n)
		}
		w.wantShown("team/other")
	})
}

// T6: when a replica becomes the worker. Fails when one namespace with many questions is completed before the others have their turn.
func TestT6NamespacesTakeTurnsWhenATermBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		bus := newOneTermBus()
		w := newWorld(t, reviewing(t, f), func(o *Options) { o.Bus = bus })
		defer w.stop()
		for i := range 4 {
			for j := range 200 {
				w.receiver(fmt.Sprint("hostile-", i), fmt.Sprintf("hook-%03d", j), fmt.Sprint("account-", j), repo("app"))
			}
		}
		for i := range 40 {
			w.receiver(fmt.Sprint("team-", i), "hook", "weak", repo("app"))
		}
		pass(10 * time.Second)
		if n := len(f.questions(time.Time{})); n > 1 { // one of them is the process's own
			t.Fatalf("asked %d times while another replica is the worker", n)
		}
		close(bus.begin)
		pass(25 * time.Second) // 270 questions; the hostile have 512, and the others 80
		for i := range 40 {
			w.wantShown(fmt.Sprintf("team-%d/hook", i), "Forbidden "+repositories+" app")
		}
	})
}

// oneTermBus makes its replica the worker once, from begin to end, and has no triggers.
type oneTermBus struct{ begin, end chan struct{} }

func newOneTermBus() oneTermBus { return oneTermBus{make(chan struct{}), make(chan struct{})} }

func (b oneTermBus) Triggers(ctx context.Context, serve func(context.Context, <-chan event.Message[event.Trigger]) error) error {
	select {
	case <-b.begin:
	case <-ctx.Done():
		return nil
	}
	term, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-b.end:
		case <-term.Done():
		}
	}()
	if err := serve(term, nil); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// T6: 500 namespaces, and one with 2,000 Receivers of an account each. Fails when that one is asked about more than its share, or when
// it delays the others. Fails when a second has more questions than the budget, or when a Receiver without findings is asked about more
// than once an interval.
func TestT6ReviewsAreBoundedAndFairByNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		w := newWorld(t, reviewing(t, f))
		defer w.stop()
		f.may["default gitrepositories *"] = true
		for i := range 2000 {
			w.receiver("hostile", fmt.Sprintf("hook-%04d", i), fmt.Sprint("account-", i), repo("app"))
		}
		for i := range 500 {
			for j := range 3 {
				w.receiver(fmt.Sprintf("team-%03d", i), fmt.Sprint("hook-", j), "default", repo(fmt.Sprint("app-", j)))
			}
		}
		pass(10 * time.Minute) // all are reviewed and have their places
		begin := time.Now()
		pass(20 * time.Minute)
		asked, perSecond := map[string]int{}, map[int64]int{}
		for _, q := range f.questions(begin) {
			asked[q.namespace]++
			perSecond[q.at.Unix()]++
		}
		if n := asked["hostile"]; n > 5*maxQuestions {
			t.Errorf("asked %d times for one namespace in four intervals", n)
		}
		for i := range 500 {
			if n := asked[fmt.Sprintf("team-%03d", i)]; n < 3 || n > 5 {
				t.Fatalf("team-%03d: asked %d times in four intervals", i, n)
			}
		}
		for second, n := range perSecond {
			if n > accessQPS+accessBurst {
				t.Errorf("%d questions in second %d", n, second)
			}
		}
		// A Receiver that is created meanwhile is reviewed within seconds.
		w.receiver("new", "hook", "weak", repo("app"))
		pass(5 * time.Second)
		w.wantShown("new/hook", "Forbidden "+repositories+" app")
	})
}

// Fails when a server that ignores constrained impersonation is believed, when each Receiver causes the question again, or when the
// repair is noticed only by each Receiver in turn.
func TestAnOldServerIsReportedOnEveryReceiverAndAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		f.old, f.may["weak gitrepositories *"] = true, true
		w := newWorld(t, reviewing(t, f))
		defer w.stop()
		for i := range 50 {
			w.receiver(fmt.Sprint("team-", i), "hook", "weak", repo("app"))
		}
		pass(10 * time.Minute)
		if err := w.applier.Impersonation(); err == nil || !strings.Contains(err.Error(), "config/legacy-impersonation") {
			t.Errorf("the process says %v", err)
		}
		begin := time.Now()
		for i := range 50 {
			w.wantShown(fmt.Sprintf("team-%d/hook", i), v1.ImpersonationRefusedReason+" GitRepository *")
		}
		pass(30 * time.Minute)
		if n := len(f.questions(begin)); n > 0 {
			t.Errorf("asked %d times what the server does not answer", n)
		}
		f.change(func() { f.may["plain"] = true })
		pass(6 * time.Minute)
		if err := w.applier.Impersonation(); err != nil {
			t.Errorf("the process says %v", err)
		}
		for i := range 50 {
			w.wantShown(fmt.Sprintf("team-%d/hook", i))
		}
	})
}

// With the ClusterRole of an earlier version writes succeed and reviews are refused. Fails when that is shown as a refusal of writes,
// or when it is tried repeatedly.
func TestWhereReviewsAreNotAllowedNothingIsSaidOfReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		f.mute = true
		w := newWorld(t, reviewing(t, f))
		defer w.stop()
		for i := range 50 {
			w.receiver(fmt.Sprint("team-", i), "hook", "weak", repo("app"))
		}
		pass(time.Hour)
		if n := len(f.questions(time.Time{})); n > 0 {
			t.Errorf("asked %d times", n)
		}
		w.wantShown("team-1/hook")
		if err := w.applier.Impersonation(); err == nil || !strings.Contains(err.Error(), "config/flux or config/default") {
			t.Errorf("the process says %v", err)
		}
		f.change(func() { f.mute = false })
		pass(11 * time.Minute)
		w.wantShown("team-1/hook", "Forbidden "+repositories+" app")
	})
}

// Fails when the questions continue after the bus is lost, which ends the Applier.
func TestReviewsEndWithTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.stop()
		o := w.opts
		o.Registerer, o.Bus = prometheus.NewRegistry(), lostBus{}
		reviewing(t, newRBAC())(&o)
		a, err := New(o)
		w.must(err)
		if err := a.Run(t.Context()); err == nil {
			t.Error("the loss of the bus is not told")
		}
	})
}

// lostBus is lost from the beginning.
type lostBus struct{}

func (lostBus) Triggers(context.Context, func(context.Context, <-chan event.Message[event.Trigger]) error) error {
	return errors.New("the bus is lost")
}
