package receiver

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// served returns the name of the Receiver that serves path, "" for none.
func served(table *Table, path string) string {
	r, _ := table.lookup(path)
	if r == nil {
		return ""
	}
	return r.owner.key
}

func created(at int64) hookOption   { return func(h *Hook) { h.Created = time.Unix(at, 0) } }
func onPath(path string) hookOption { return func(h *Hook) { h.Path = path } }

// The peer serves whichever Receiver its API lists first. Fails when a later Put replaces an older Receiver's claim, when a tie
// depends on the order of the Puts, or when the claim of the one who lost is forgotten.
func TestOfTwoReceiversWithOnePathTheOlderServesIt(t *testing.T) {
	path := Path(token, "main", "payments") // = Path(token, "mainpay", "ments")
	if path != Path(token, "mainpay", "ments") {
		t.Fatal("the paths do not collide")
	}
	for name, tc := range map[string]struct {
		first, second int64
		winner        string
	}{
		"the first put is older":            {1, 2, "payments/main"},
		"the second put is older":           {2, 1, "ments/mainpay"},
		"of the same age the first by name": {1, 1, "ments/mainpay"},
	} {
		t.Run(name, func(t *testing.T) {
			var moved []string
			table, err := NewTable(unlimited(), func(key string) { moved = append(moved, key) })
			if err != nil {
				t.Fatal(err)
			}
			if err := table.Put("payments/main", newHook(t, "payments/main", onPath(path), created(tc.first))); err != nil {
				t.Fatalf("alone: %v", err)
			}
			err = table.Put("ments/mainpay", newHook(t, "ments/mainpay", onPath(path), created(tc.second)))
			if wins := tc.winner == "ments/mainpay"; wins != (err == nil) || !wins && !errors.Is(err, ErrPathTaken) {
				t.Errorf("the second Put returned %v", err)
			}
			if got := served(table, path); got != tc.winner {
				t.Errorf("%q serves, want %q", got, tc.winner)
			}
			loser := map[string]string{"payments/main": "ments/mainpay", "ments/mainpay": "payments/main"}[tc.winner]
			table.Delete(tc.winner)
			if got := served(table, path); got != loser {
				t.Errorf("after the winner went %q serves, want %q", got, loser)
			}
			want := []string{loser}
			if tc.winner == "ments/mainpay" {
				want = []string{loser, loser} // displaced, later promoted
			}
			if diff := cmp.Diff(want, moved); diff != "" {
				t.Errorf("told to look again (-want +got):\n%s", diff)
			}
			table.Delete(loser)
			if got := served(table, path); got != "" || len(table.claims) != 0 || len(table.owners) != 0 || len(table.tenants) != 0 {
				t.Errorf("after both went %q serves; claims %v, owners %v, tenants %v", got, table.claims, table.owners, table.tenants)
			}
		})
	}
}

// T1: the path of a type without a token is no secret, so another namespace can choose a token that makes it. Fails when that
// gives it the path, whoever was first or is older, or when it keeps the path that it had while there was nobody else.
func TestT1APathWithoutATokenCannotBeTakenWithOne(t *testing.T) {
	path := Path("", "app", "team-a")
	if path != Path("app", "te", "am-a") {
		t.Fatal("the paths do not collide")
	}
	issuer := newFakeIssuer(t, "https://issuer.example", "a")
	verifier := oidcVerifier(t, newIssuers(t, issuer, ""), issuer.url)
	victim := newHook(t, "team-a/app", onPath(path), created(2), func(h *Hook) { h.Verifier = verifier })
	squatter := newHook(t, "am-a/te", onPath(path), created(1), withType(t, "generic"))
	for name, order := range map[string][]*Hook{"the victim first": {victim, squatter}, "the squatter first": {squatter, victim}} {
		t.Run(name, func(t *testing.T) {
			table := newTable(t, unlimited())
			put := func(h *Hook) {
				t.Helper()
				err := table.Put(h.Namespace+"/"+h.Name, h)
				alone := len(table.claims[path]) == 1
				if taken := errors.Is(err, ErrPathTaken); taken != (h == squatter && !alone) {
					t.Errorf("Put of %s returned %v", h.Name, err)
				}
			}
			put(order[0])
			put(order[1])
			if got := served(table, path); got != "team-a/app" {
				t.Errorf("%q serves", got)
			}
			table.Delete("team-a/app")
			put(squatter)
			if got := served(table, path); got != "am-a/te" {
				t.Errorf("alone: %q serves", got)
			}
			put(victim)
			if got := served(table, path); got != "team-a/app" {
				t.Errorf("created again: %q serves", got)
			}
		})
	}
}

// Fails when Put returns ErrPathTaken for any path but the first, and when the claim of the others is forgotten.
func TestAPathOnItsWayOutThatIsTakenIsNoError(t *testing.T) {
	old := Path(token, "main", "payments") // = Path(token, "mainpay", "ments")
	table := newTable(t, unlimited(), newHook(t, "payments/main", onPath(old), created(1)))
	next := Path("next", "mainpay", "ments")
	if err := table.Put("ments/mainpay", newHook(t, "ments/mainpay", onPath(next), created(2)),
		newHook(t, "ments/mainpay", onPath(old), created(2))); err != nil {
		t.Errorf("Put: %v", err)
	}
	if a, b := served(table, next), served(table, old); a != "ments/mainpay" || b != "payments/main" {
		t.Errorf("%q and %q serve", a, b)
	}
	table.Delete("payments/main")
	if got := served(table, old); got != "ments/mainpay" {
		t.Errorf("after the other went %q serves", got)
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

// Fails when Put deletes what a Receiver served before it stores what it serves now.
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

// Fails when a Put makes the budgets anew: every edit of a Receiver would refill them.
func TestBudgetsOutliveAnEdit(t *testing.T) {
	table := newTable(t, DefaultLimits(), newHook(t, "team-a/hook"))
	path := newHook(t, "team-a/hook").Path
	before, _ := table.lookup(path)
	if err := table.Put("team-a/hook", newHook(t, "team-a/hook", withEvents("push"))); err != nil {
		t.Fatal(err)
	}
	after, _ := table.lookup(path)
	if after == before || after.line != before.line || after.owner != before.owner || after.tenant != before.tenant {
		t.Error("the state did not outlive the edit, or the edit did not come through")
	}
}

// T6: fails when a namespace that deletes its last Receiver and creates it again has all its room and budget again, while it holds
// the first or has used up the budget; and when its state is kept for ever.
func TestT6ANamespaceThatComesBackHasTheRoomThatItLeft(t *testing.T) {
	for name, use := range map[string]func(*Table, *route) (end func()){
		"a place": func(table *Table, rt *route) func() {
			g := gate{room: newRoom(table.limits.Requests.Total, table.limits.Bodies.Total)}
			p, ok := g.enter(t.Context(), rt)
			if !ok {
				t.Fatal("no place")
			}
			return p.leave
		},
		"the budget": func(_ *Table, rt *route) func() {
			rt.tenant.deliveries.AllowN(time.Now(), rt.tenant.deliveries.Burst())
			return func() { elapse(time.Minute) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hook := newHook(t, "team-a/hook")
				table := newTable(t, DefaultLimits(), hook)
				before, _ := table.lookup(hook.Path)
				end := use(table, before)
				table.Delete("team-a/hook")
				table.expire(time.Now())
				if err := table.Put("team-a/hook", hook); err != nil {
					t.Fatal(err)
				}
				if after, _ := table.lookup(hook.Path); after.tenant != before.tenant {
					t.Error("the namespace has all its room again")
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
