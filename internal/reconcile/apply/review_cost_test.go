package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v1 "notifier/api/v1"
	"notifier/internal/event"
)

// Fails when a replica asks for namespaces of shards that it does not own, or continues after it has lost one.
func TestOnlyTheOwnerOfANamespaceAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		bus := &otherShard{}
		w := newWorld(t, reviewing(t, f), func(o *Options) { bus.Bus, o.Bus = o.Bus, bus })
		defer w.stop()
		w.receiver("theirs", "hook", "weak", repo("app"))
		w.receiver("ours", "hook", "weak", repo("app"))
		pass(time.Hour)
		for _, q := range f.questions(time.Time{}) {
			if q.namespace != "ours" && q.resource == "gitrepositories" {
				t.Fatalf("asked for %+v", q)
			}
		}
		w.wantShown("ours/hook", "Forbidden "+repositories+" app")
		w.wantShown("theirs/hook")
	})
}

// T6: when a shard is taken over. Fails when one namespace with many questions is completed before the others have their turn.
func TestT6NamespacesTakeTurnsWhenAShardIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		bus := &otherShard{}
		bus.all.Store(true)
		w := newWorld(t, reviewing(t, f), func(o *Options) { bus.Bus, o.Bus = o.Bus, bus })
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
			t.Fatalf("asked %d times for what is another's", n)
		}
		bus.all.Store(false)
		w.applier.reviews.all(func(string) bool { return true })
		pass(25 * time.Second) // 270 questions; the hostile have 512, and the others 80
		for i := range 40 {
			w.wantShown(fmt.Sprintf("team-%d/hook", i), "Forbidden "+repositories+" app")
		}
	})
}

// otherShard has the namespace "theirs" in a shard that another replica owns.
type otherShard struct {
	Bus
	all atomic.Bool // another replica owns all namespaces
}

func (o *otherShard) TriggerShard(namespace string) int {
	if namespace == "theirs" || o.all.Load() {
		return 1
	}
	return 0
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

func (lostBus) Triggers(context.Context, func(context.Context, int, <-chan event.Message[event.Trigger]) error) error {
	return errors.New("the bus is lost")
}

func (lostBus) TriggerShard(string) int { return 0 }
