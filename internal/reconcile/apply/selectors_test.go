package apply

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// manySelectors is an idle applier with one tenant's claims to one object, of Receivers with 64 selectors each.
type manySelectors struct {
	*term
	live   fakeReceivers
	object item
	first  *attempt
	claims int
	// seen is called when the applier looks a Receiver up. looked counts look-ups of one, listed those of all of the namespace.
	seen           func()
	looked, listed int
}

func (c *manySelectors) Live(namespace, name string) (Receiver, bool) {
	c.looked++
	c.seen()
	return c.live.Live(namespace, name)
}

func (c *manySelectors) Uncompiled(_, _, _ string) bool { return false }

func (c *manySelectors) Namespaces() []string { return nil }

func (c *manySelectors) Follow(func(namespace, name string)) {}

func (c *manySelectors) InNamespace(namespace string) []Receiver {
	c.listed++
	return c.live.InNamespace(namespace)
}

func newManySelectors(t testing.TB, receivers int) *manySelectors {
	t.Helper()
	c := &manySelectors{object: item{namespace: "team", object: object{"source.toolkit.fluxcd.io", "GitRepository", "app"}}, seen: func() {}}
	api := &fakeAPI{}
	client, err := NewClient(&rest.Config{Host: "http://api.test", Transport: api})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{
		Bus: &fakeBus{}, Receivers: c, Compiled: make(chan struct{}), Selector: fakeSelector{}, Catalogue: kube.NewCatalogue(api), Client: client,
		Reports: &fakeReports{values: map[string][]byte{}}, Interval: time.Second, QPS: 100, Burst: 200, ReviewInterval: 5 * time.Minute,
		Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.term = a.newTerm(t.Context())
	for i := range receivers {
		r := Receiver{
			Namespace: "team", Name: fmt.Sprint("r", i), UID: fmt.Sprint("uid-r", i),
			Created: time.Now().Add(-time.Hour), ServiceAccount: "sa",
		}
		for n := range 64 {
			r.Targets = append(r.Targets, selecting(fmt.Sprintf("label-%d-%d", i, n), "a"))
		}
		c.live.put(r)
		for _, target := range r.Targets {
			tr := trigger(r, target)
			j := &job{
				key: item{namespace: "team", key: tr.Key}, pending: map[item]*attempt{},
				held: event.Message[event.Trigger]{Value: tr, Acker: &fakeHold{}}, trigger: &tr,
			}
			c.jobs[j.key] = j
			c.claim(j, c.object)
			c.claims++
			if c.first == nil {
				c.first = j.pending[c.object]
			}
		}
	}
	return c
}

// answer makes the first claim's request succeed. It returns the number of claims that this ended and of its allocations.
func (c *manySelectors) answer() (ended int, allocations uint64) {
	r, _ := c.live.Live("team", "r0")
	o := outcome{verdict: applied, sent: true, stamp: time.Now(), receiver: r, resource: "gitrepositories.source.toolkit.fluxcd.io"}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.settled(c.object, c.first, o)
	runtime.ReadMemStats(&after)
	return c.claims - len(c.jobs), after.Mallocs - before.Mallocs
}

// T6: a tenant's many Receivers with many selectors over one object cost the other tenants little. Fails when the lock that all share
// is held while the claims are resolved, or when resolving one computes the key of each target.
func TestT6ATenantsManyClaimsToOneObjectDoNotHoldUpTheOthers(t *testing.T) {
	for _, receivers := range []int{1, 50} {
		t.Run(fmt.Sprint(receivers), func(t *testing.T) {
			c := newManySelectors(t, receivers)
			locked := 0
			c.seen = func() {
				if !c.mu.TryLock() {
					locked++
					return
				}
				c.mu.Unlock()
			}
			ended, allocations := c.answer()
			if ended != c.claims {
				t.Errorf("%d of %d claims ended", ended, c.claims)
			}
			if locked > 0 {
				t.Errorf("%d claims were resolved under the lock", locked)
			}
			if c.looked > c.claims || c.listed > 0 {
				t.Errorf("%d Receivers looked up, %d times all, for %d claims", c.looked, c.listed, c.claims)
			}
			if each := float64(allocations) / float64(c.claims); each > 20 { // with a key for each target more than 500
				t.Errorf("%.0f allocations a claim", each)
			}
		})
	}
}

// T6, for claims that stay. Fails when each answer searches all Receivers for a claim whose own Receiver no longer asks.
func TestT6ClaimsThatNobodyMakesAnyMoreDoNotHoldUpTheOthers(t *testing.T) {
	c := newManySelectors(t, 50)
	for _, r := range c.live.InNamespace("team") {
		if r.Name != "r0" {
			r.Targets = []event.Target{repo("other")}
			c.live.put(r)
		}
	}
	ended, allocations := c.answer()
	if ended != 64 {
		t.Errorf("%d claims ended, want those of the one Receiver that still asks", ended)
	}
	if each := float64(allocations) / float64(c.claims); c.listed > 0 || each > 20 {
		t.Errorf("all Receivers looked up %d times, %.0f allocations a claim", c.listed, each)
	}
}

// T4. Fails when share ends a claim that got another trigger, or was given up, while share checked whether the request has met it.
func TestT4AClaimThatChangesWhileItIsSharedIsLeftAlone(t *testing.T) {
	c := newManySelectors(t, 1)
	r, _ := c.live.Live("team", "r0")
	jobOf := func(target event.Target) *job {
		return c.jobs[item{namespace: "team", key: event.TargetKey(target, "sa")}]
	}
	left, renewed := jobOf(r.Targets[1]), jobOf(r.Targets[2])
	newer := trigger(r, r.Targets[2])
	c.seen = func() {
		c.seen = func() {}
		if !c.mu.TryLock() {
			t.Error("a claim was resolved under the lock")
			return
		}
		at := left.pending[c.object]
		c.drop(left, c.object)
		c.slots[c.object].leave(at)
		c.mu.Unlock()
		c.offer(event.Message[event.Trigger]{Value: newer, Acker: &fakeHold{}})
	}
	if ended, _ := c.answer(); ended != c.claims-2 {
		t.Errorf("%d of %d claims ended, want all but two", ended, c.claims)
	}
	if waiting := c.slots[c.object].waiting; len(waiting) != 1 || waiting[0].job != renewed {
		t.Errorf("%d claims wait, want the one with a newer trigger", len(waiting))
	}
}

// T4. A trigger coalesces webhooks until it is taken (event.Taker), and resolving its target takes it. Fails when a request that was
// stamped before ends the claim, which happens when the trigger is taken while share checks whether the request has met it.
func TestT4AClaimWhoseTriggerIsTakenWhileItIsSharedIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newManySelectors(t, 1)
		r, _ := c.live.Live("team", "r0")
		target := r.Targets[1]
		c.opts.Selector.(fakeSelector)[target.Selector()] = []string{c.object.object.name}
		taken := c.jobs[item{namespace: "team", key: event.TargetKey(target, "sa")}]
		hold := &fakeHold{}
		c.offer(event.Message[event.Trigger]{Value: trigger(r, target), Acker: hold})
		c.seen = func() {
			c.seen = func() {}
			pass(time.Millisecond)
			c.expand(t.Context(), taken.key)
		}
		if ended, _ := c.answer(); ended != c.claims-1 {
			t.Errorf("%d of %d claims ended, want all but one", ended, c.claims)
		}
		if waiting := c.slots[c.object].waiting; len(waiting) != 1 || waiting[0].job != taken || hold.taken.IsZero() {
			t.Errorf("%d claims wait, want the one whose trigger was taken, at %v", len(waiting), hold.taken)
		}
	})
}

// T6: the cost of one more claim under the lock does not grow with their number. Fails when the claim due next is searched for.
func TestT6AClaimsCostDoesNotGrowWithTheirNumber(t *testing.T) {
	each := func(claims int) time.Duration {
		c := newManySelectors(t, 0)
		jobs := make([]*job, claims)
		for i := range jobs {
			jobs[i] = &job{pending: map[item]*attempt{}}
		}
		began := time.Now()
		for _, j := range jobs {
			c.claim(j, c.object)
		}
		return time.Since(began) / time.Duration(claims)
	}
	few, many := time.Hour, time.Hour
	for range 8 { // the best of each, since others use the processors as well
		few, many = min(few, each(256)), min(many, each(16384))
		if many <= 8*few {
			return
		}
	}
	t.Errorf("%v a claim among 256, %v among 16384", few, many) // a search would cost some 40 times
}

// Fails when claims are not taken in the order of their times, or of two with the same time not the first.
func TestClaimsAreTakenInTurn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	s := &slot{}
	var want []*attempt
	for range 1000 {
		at := &attempt{notBefore: now.Add(time.Duration(random.IntN(5)) * time.Second)}
		if random.IntN(3) == 0 {
			at.floor = now.Add(3 * time.Second)
		}
		s.wait(at)
		want = append(want, at)
		if random.IntN(4) == 0 {
			moved := want[random.IntN(len(want))]
			moved.notBefore, moved.floor = now.Add(time.Second), time.Time{}
			s.moved(moved)
		}
		if i := random.IntN(len(want)); random.IntN(5) == 0 {
			s.leave(want[i])
			want = slices.Delete(want, i, i+1)
		}
	}
	slices.SortStableFunc(want, func(x, y *attempt) int { return cmp.Or(x.due().Compare(y.due()), cmp.Compare(x.turn, y.turn)) })
	for i, at := range want {
		if s.waiting[0] != at {
			t.Fatalf("claim %d is not the one whose turn it is", i)
		}
		s.leave(at)
	}
}
