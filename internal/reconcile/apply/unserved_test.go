package apply

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// T6: versions that a tenant invents cost the cluster a question a minute, for any number of them. Fails when each is asked for, when
// another tenant's first webhook for a version waits for them, or when a waiting trigger is lost.
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
		pass(5*time.Minute - time.Second)
		if n := w.api.questions(); n > 1+6+5 {
			t.Errorf("asked %d times in 5 minutes", n)
		}
		for _, h := range invented {
			w.want(h, "held")
		}
		// One of them is served later: its webhook gets its request.
		target := event.Target{APIVersion: "v1", Kind: "ConfigMap", Name: "app"}
		late := w.hook(w.receiver("team-a", "real", "deployer", target))
		pass(30 * time.Minute)
		w.want(late, "done")
		for _, h := range invented {
			w.want(h, "done") // refused for ten minutes
		}
	})
}
