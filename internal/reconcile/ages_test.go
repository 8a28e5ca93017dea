package reconcile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"notifier/internal/alloctest"
	"notifier/internal/reconcile/kube"
)

// The Alerts within the limit, and the Alerts that note returns, are the same as by counting all older ones, after any order of additions
// and deletions. Fails when note omits an Alert that moves up, or another that moves down.
func TestTheOldestAreKnownAfterAnyChange(t *testing.T) {
	const limit, names = 3, 12
	random := rand.New(rand.NewPCG(1, 2))
	s, alive := newAges(limit), map[string]time.Time{}
	served := func(name string) bool {
		older := 0
		for other, created := range alive {
			if (age{created.Unix(), other}).compare(age{alive[name].Unix(), name}) < 0 {
				older++
			}
		}
		return older < limit
	}
	for range 5000 {
		before := map[string]bool{}
		for name := range alive {
			before[name] = served(name)
		}
		changed := fmt.Sprint("alert-", random.IntN(names))
		var seen []age // as a watch reports it: the former object, then the new one
		if was, known := alive[changed]; known {
			seen = append(seen, age{was.Unix(), changed})
			delete(alive, changed)
		}
		var now *age
		if random.IntN(3) > 0 {
			alive[changed] = time.Unix(int64(random.IntN(6)), 0)
			now = &age{alive[changed].Unix(), changed}
			seen = append(seen, *now)
		}
		var moved []kube.Key
		for _, one := range seen {
			moved = append(moved, s.note("team-a", one, now)...)
		}
		for name, at := range alive {
			k := kube.Key{Namespace: "team-a", Name: name}
			if s.over(k, at) == served(name) {
				t.Fatalf("%s: over %v, served %v of %v", name, s.over(k, at), served(name), alive)
			}
			was, known := before[name]
			if known && name != changed && was != served(name) && !slices.Contains(moved, k) {
				t.Fatalf("%s crossed the limit by %s and is not looked at: %v", name, changed, moved)
			}
		}
	}
	if len(alive) == 0 || len(s.namespaces["team-a"]) != len(alive) {
		t.Errorf("remembers %v of %v", s.namespaces["team-a"], alive)
	}
}

// T6: the time of ranking a namespace of very many Alerts is proportional to their number, not its square. Fails when the reconcile of an
// Alert allocates a list of all others of its namespace.
func TestT6ToLookAtAnAlertCostsNothingForTheOthersOfItsNamespace(t *testing.T) {
	objects := []runtime.Object{newProvider("chat")}
	for i := range 2000 {
		objects = append(objects, newAlert(fmt.Sprint("alert-", i)))
	}
	s := settings{objects: objects, change: func(o *Options) { o.MaxAlertsPerNamespace = 1000 }}
	play(t, s, func(w *world) {
		c := &alertController{w.Reconciler.alerts, newAges(1000)}
		look := func() {
			for i := range 100 {
				a, _ := c.objects.Get(kube.Key{Namespace: "team-a", Name: fmt.Sprint("alert-", i)})
				c.keys(a)
				_ = c.compile(t.Context(), kube.KeyOf(a))
			}
		}
		look()
		if bytes := alloctest.Bytes(look) / 100; bytes > 16<<10 {
			t.Errorf("to look at one makes %d bytes", bytes)
		}
	})
}
