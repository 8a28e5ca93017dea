package apply

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// T6: what the cluster serves is asked for at each namespace's own pace. Fails when versions that a tenant invents are each asked for at
// once, when another tenant's first webhook for a version waits for them, when an answer that there is no such version is not kept, and
// when what waits is lost.
func TestT6VersionsThatATenantInventsWaitForThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		var invented []*fakeHold
		for i := range 150 {
			target := event.Target{APIVersion: fmt.Sprintf("a.example/v%d", i+1), Kind: "Widget", Name: fmt.Sprint("app-", i)}
			invented = append(invented, w.hook(w.receiver("team-a", fmt.Sprint("r-", i), "deployer", target)))
		}
		other := w.hook(w.receiver("team-b", "github", "deployer", repo("app")))
		pass(time.Second)
		w.want(other, "done")
		pass(4 * time.Second)
		if n := len(w.api.versions()) - 1; n < versionBurst || n > versionBurst+int(5*time.Second/versionPause)+1 {
			t.Errorf("asked %d times in 5 s", n)
		}
		for _, h := range invented {
			w.want(h, "held")
		}
		// One of them is served later: its webhook has its request.
		target := event.Target{APIVersion: "v1", Kind: "ConfigMap", Name: "app"}
		late := w.hook(w.receiver("team-a", "real", "deployer", target))
		pass(30 * time.Minute)
		w.want(late, "done")
		for _, h := range invented {
			w.want(h, "done") // refused for ten minutes
		}
	})
}

// Fails when the answer that a version is not served is not kept for a namespace because of another's inventions, or without a bound.
func TestT6AnswersThatThereIsNoSuchVersionAreKeptForEachNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{}
		m := newMapper(api)
		defer m.flights.Wait()
		const absent = "b.example/v1"
		if _, err := m.resource(t.Context(), "team-b", absent, "Widget"); !unresolvable(err) {
			t.Fatal(err)
		}
		asked := func() (n int) {
			for _, v := range api.versions() {
				if v == absent {
					n++
				}
			}
			return n
		}
		for i := range 10 * maxVersions {
			_, _ = m.resource(t.Context(), "team-a", fmt.Sprintf("a.example/v%d", i+1), "Widget")
			pass(versionPause)
			if i%8 == 0 {
				if _, err := m.resource(t.Context(), "team-b", absent, "Widget"); !unresolvable(err) {
					t.Fatal(err)
				}
			}
		}
		if n, most := asked(), int(10*maxVersions*versionPause/catalogueRefresh)+1; n > most {
			t.Errorf("asked %d times for a version that is not served, want at most %d", n, most)
		}
		if n := len(m.versions); n > maxUnserved+1 {
			t.Errorf("%d versions are kept, %d of them for one namespace", n, n-1)
		}
		for i := range 10 * maxAskers {
			_, _ = m.resource(t.Context(), fmt.Sprint("team-", i), absent, "Widget")
			pass(catalogueRefresh)
		}
		if n := len(m.paces.of); n > maxAskers {
			t.Errorf("%d namespaces are remembered", n)
		}
	})
}
