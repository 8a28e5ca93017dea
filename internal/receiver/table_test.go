package receiver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/receiver/oidc/oidctest"
)

// served returns the name of the Receiver that serves path, "" for none.
func served(table *Table, path string) string {
	r := table.first(path)
	if r == nil {
		return ""
	}
	return r.owner.key
}

func created(at int64) hookOption   { return func(h *Hook) { h.Created = time.Unix(at, 0) } }
func onPath(path string) hookOption { return func(h *Hook) { h.Path = path } }

// servedOn returns the names of the Receivers that serve path.
func servedOn(table *Table, path string) []string {
	s, _ := table.lookup(path)
	if s == nil {
		return nil
	}
	keys := []string{}
	for _, r := range s.routes {
		keys = append(keys, r.owner.key)
	}
	return keys
}

// T1: the path's digest does not separate the name from the namespace. Fails when one of two Receivers keeps the path from the other, when
// either learns of the other, or when their order depends on that of the Puts.
func TestT1ReceiversWithOnePathAreAllServed(t *testing.T) {
	path := Path(token, "main", "payments") // = Path(token, "mainpay", "ments")
	if path != Path(token, "mainpay", "ments") {
		t.Fatal("the paths do not collide")
	}
	for name, tc := range map[string]struct {
		first, second int64
		want          []string
	}{
		"the first put is older":            {1, 2, []string{"payments/main", "ments/mainpay"}},
		"the second put is older":           {2, 1, []string{"ments/mainpay", "payments/main"}},
		"of the same age the first by name": {1, 1, []string{"ments/mainpay", "payments/main"}},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := NewTable(unlimited(), func(key string) { t.Errorf("%s is told to look again", key) })
			if err != nil {
				t.Fatal(err)
			}
			for key, at := range map[string]int64{"payments/main": tc.first, "ments/mainpay": tc.second} {
				if err := table.Put(key, newHook(t, key, onPath(path), created(at))); err != nil {
					t.Errorf("Put of %s: %v", key, err)
				}
			}
			if diff := cmp.Diff(tc.want, servedOn(table, path)); diff != "" {
				t.Errorf("served (-want +got):\n%s", diff)
			}
			before := table.first(path).path
			if err := table.Put(tc.want[0], newHook(t, tc.want[0], onPath(path), created(1), withEvents("push"))); err != nil {
				t.Errorf("an edit: %v", err)
			}
			if table.first(path).path != before {
				t.Error("the budgets did not outlive an edit")
			}
			table.Delete(tc.want[0])
			if diff := cmp.Diff(tc.want[1:], servedOn(table, path)); diff != "" {
				t.Errorf("after the first went (-want +got):\n%s", diff)
			}
			table.Delete(tc.want[1])
			if got := servedOn(table, path); got != nil || table.at(path) != nil || len(table.owners) != 0 || len(table.tenants) != 0 {
				t.Errorf("after both went %q serve; owners %v, tenants %v", got, table.owners, table.tenants)
			}
		})
	}
}

// T1: the path of a type without a token is no secret. So another namespace can choose a token that makes the path, with a type that takes
// the path for proof. Fails when that Receiver is served there, or learns the reason.
func TestT1APathWithoutATokenIsNoProof(t *testing.T) {
	path := Path("", "app", "team-a")
	if path != Path("app", "te", "am-a") {
		t.Fatal("the paths do not collide")
	}
	issuer := oidctest.New(t, "https://issuer.example", "a")
	verifier := oidcVerifier(t, newIssuers(t, issuer, ""), issuer.URL)
	victim := newHook(t, "team-a/app", onPath(path), created(2), func(h *Hook) { h.Verifier = verifier })
	attacker := newHook(t, "am-a/te", onPath(path), created(1), withType(t, "generic"))
	for name, order := range map[string][]*Hook{"the victim first": {victim, attacker}, "the attacker first": {attacker, victim}} {
		t.Run(name, func(t *testing.T) {
			table := newTable(t, unlimited(), order...)
			for _, step := range []struct {
				do   func()
				want []string
			}{
				{func() {}, []string{"team-a/app"}},
				{func() { table.Delete("team-a/app") }, []string{"am-a/te"}},
				{func() {
					if err := table.Put("team-a/app", victim); err != nil {
						t.Error(err)
					}
				}, []string{"team-a/app"}},
			} {
				step.do()
				if diff := cmp.Diff(step.want, servedOn(table, path)); diff != "" {
					t.Errorf("served (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// The cost of a webhook is bounded. Fails without a bound, when a namespace's many Receivers exclude another namespace's only one, when an
// excluded Receiver is not notified, and when it is not notified of a free place.
func TestT5ThePlacesOnOnePathAreBoundedAndSharedByNamespaces(t *testing.T) {
	path := Path(token, "main", "payments")
	var moved []string
	table, err := NewTable(unlimited(), func(key string) { moved = append(moved, key) })
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string, age int64, want error) {
		t.Helper()
		if err := table.Put(key, newHook(t, key, onPath(path), created(age))); !errors.Is(err, want) {
			t.Errorf("Put of %s: %v", key, err)
		}
	}
	for i := range maxOnPath {
		put(fmt.Sprintf("many/r%d", i), int64(i), nil)
	}
	put("many/last", 100, ErrPathFull)
	put("one/young", 200, nil)
	if got := servedOn(table, path); len(got) != maxOnPath || got[1] != "one/young" {
		t.Errorf("served: %q", got)
	}
	table.Delete("many/r0")
	if diff := cmp.Diff([]string{"many/r7", "many/r7"}, moved); diff != "" { // out, and in again
		t.Errorf("told to look again (-want +got):\n%s", diff)
	}
	put("one/young", 200, nil)
	put("many/last", 100, ErrPathFull)
	put("many/last", 0, nil)
	// A path that is being phased out and has no place is no error.
	if err := table.Put("many/two", newHook(t, "many/two", onPath(Path("next", "two", "many"))),
		newHook(t, "many/two", onPath(path), created(300))); err != nil {
		t.Error(err)
	}
}

// T1: fails without the check in Hook.validate.
func TestT1AHookThatReachesIntoAnotherNamespaceIsNotServed(t *testing.T) {
	table := newTable(t, unlimited())
	good := newHook(t, "team-a/hook")
	if err := table.Put("team-a/hook", good); err != nil {
		t.Fatal(err)
	}
	bad := newHook(t, "team-a/hook", func(h *Hook) { h.Targets[0].Namespace = "team-b" })
	if err := table.Put("team-a/hook", bad); err == nil {
		t.Error("Put took it")
	}
	if got := served(table, good.Path); got != "" {
		t.Errorf("%s is served still, want nothing", got)
	}
}

func TestAHookThatIsNotFitIsNotServed(t *testing.T) {
	for name, change := range map[string]hookOption{
		"no verifier":      func(h *Hook) { h.Verifier = nil },
		"no namespace":     func(h *Hook) { h.Namespace = "" },
		"another Receiver": func(h *Hook) { h.Name = "other" },
		"no hook path":     func(h *Hook) { h.Path = "/hook/x" },
	} {
		t.Run(name, func(t *testing.T) {
			table := newTable(t, unlimited())
			h := newHook(t, "team-a/hook", change)
			if err := table.Put("team-a/hook", h); err == nil || served(table, h.Path) != "" {
				t.Errorf("Put returned %v and %q serves", err, served(table, h.Path))
			}
		})
	}
}

// Fails when Put deletes a Receiver's old paths before it stores the new ones.
func TestAPathThatStaysIsNeverMissingDuringAPut(t *testing.T) {
	table := newTable(t, unlimited())
	stays := newHook(t, "team-a/hook")
	other := newHook(t, "team-a/hook", onPath(Path("old", "hook", "team-a")))
	if err := table.Put("team-a/hook", stays); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 300_000 {
			if served(table, stays.Path) == "" {
				t.Error("the path was missing")
				return
			}
		}
	}()
	for i, running := 0, true; running; i++ {
		hooks := []*Hook{stays}
		if i%2 == 1 {
			hooks = []*Hook{other, stays}
		}
		if err := table.Put("team-a/hook", hooks...); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
			running = false
		default:
		}
	}
	if err := table.Put("team-a/hook", stays); err != nil {
		t.Fatal(err)
	}
	if served(table, other.Path) != "" {
		t.Error("a path that was given up is served still")
	}
}

// Fails when a Put creates new budgets: every edit of a Receiver would refill them.
func TestBudgetsOutliveAnEdit(t *testing.T) {
	table := newTable(t, DefaultLimits(), newHook(t, "team-a/hook"))
	path := newHook(t, "team-a/hook").Path
	before := table.first(path)
	if err := table.Put("team-a/hook", newHook(t, "team-a/hook", withEvents("push"))); err != nil {
		t.Fatal(err)
	}
	after := table.first(path)
	if after == before || after.path != before.path || after.owner != before.owner || after.owner.tenant != before.owner.tenant {
		t.Error("the state did not outlive the edit, or the edit did not come through")
	}
	if err := table.Put("team-a/hook", newHook(t, "team-a/hook", func(h *Hook) { h.UID = "another" })); err != nil {
		t.Fatal(err)
	}
	another := table.first(path)
	if another.path != before.path || another.owner.deliveries != before.owner.deliveries || another.owner.tenant.receivers != 1 {
		t.Error("a Receiver that was created again has other budgets")
	}
	if another.owner.stats == before.owner.stats || table.owners["team-a/hook"] != another.owner {
		t.Error("a Receiver that was created again has the counts of the one before")
	}
}

// T6: a namespace deletes its last Receiver and creates it again. Fails when it then has all its capacity and budget again, while it uses
// the first capacity or has used up the budget; and when its state is kept for ever.
func TestT6ANamespaceThatComesBackHasTheRoomThatItLeft(t *testing.T) {
	for name, use := range map[string]func(*Table, *route) (end func()){
		"a place": func(table *Table, rt *route) func() {
			place, ok := table.capacity(rt).enter(t.Context(), table.limits.Wait)
			if !ok {
				t.Fatal("no place")
			}
			return place.Release
		},
		"a body that outlasts its place, as one that several Receivers read": func(table *Table, rt *route) func() {
			body, ok := table.capacity(rt).bodies.TryAcquire(1)
			if !ok {
				t.Fatal("no memory for a body")
			}
			return body.Release
		},
		"the budget": func(_ *Table, rt *route) func() {
			rt.owner.tenant.deliveries.AllowN(time.Now(), rt.owner.tenant.deliveries.Burst())
			return func() { elapse(time.Minute) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hook := newHook(t, "team-a/hook")
				table := newTable(t, DefaultLimits(), hook)
				before := table.first(hook.Path)
				end := use(table, before)
				table.Delete("team-a/hook")
				table.expire(time.Now())
				if err := table.Put("team-a/hook", hook); err != nil {
					t.Fatal(err)
				}
				if after := table.first(hook.Path); after.owner.tenant != before.owner.tenant {
					t.Error("the namespace has all its capacity again")
				}
				table.Delete("team-a/hook")
				end()
				if table.expire(time.Now()); len(table.tenants) != 0 {
					t.Error("what the namespace left is kept")
				}
			})
		})
	}
}

// Fails when a change copies the table: ten thousand Receivers would take minutes instead of moments.
func TestThousandsOfReceiversArePutInLinearTime(t *testing.T) {
	fill := func(n int) time.Duration {
		table := newTable(t, DefaultLimits())
		hooks := make([]*Hook, n)
		for i := range hooks {
			hooks[i] = newHook(t, fmt.Sprintf("team-%d/hook-%d", i%500, i))
		}
		begin := time.Now()
		for _, h := range hooks {
			if err := table.Put(h.Namespace+"/"+h.Name, h); err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(begin)
	}
	best := func(n int) time.Duration { return slices.Min([]time.Duration{fill(n), fill(n), fill(n)}) }
	small, large := best(1000), best(16000)
	if large > 160*small { // linear is 16
		t.Errorf("1,000 Receivers took %s, 16,000 took %s", small, large)
	}
}

// Fails when a path of a suspended Receiver is unknown or not suspended, when it stays suspended in its next version, or when another
// Receiver is suspended with it.
func TestASuspendedReceiverKeepsItsPaths(t *testing.T) {
	first, other := newHook(t, "payments/main"), newHook(t, "ments/mainpay") // on one path
	previous := newHook(t, "payments/main", onPath(Path("previous", "main", "payments")))
	table := newTable(t, unlimited(), other)
	if err := table.Put("payments/main", first, previous); err != nil {
		t.Fatal(err)
	}
	table.Suspend("payments/main")
	table.Suspend("payments/none")
	if r := table.first(previous.Path); r == nil || !r.suspended.Load() || previous.Suspended {
		t.Error("the path is unknown, or is not suspended")
	}
	s, _ := table.lookup(first.Path)
	if len(s.routes) != 2 || s.routes[0].hook != other || !s.routes[1].suspended.Load() {
		t.Errorf("on the path that another Receiver has: %+v", s.routes)
	}
	bus := &recorder{}
	if resp := do(newWebhooks(t, table, bus), push(previous.Path, token, "{}")); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a webhook is answered %d %s", resp.StatusCode, bodyOf(t, resp))
	}
	if err := table.Put("payments/main", first, previous); err != nil {
		t.Fatal(err)
	}
	if resp := do(newWebhooks(t, table, bus), push(previous.Path, token, "{}")); resp.StatusCode != http.StatusOK {
		t.Errorf("after another Put it is answered %d %s", resp.StatusCode, bodyOf(t, resp))
	}
}
