package apply

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// T6: an admission webhook selects the namespace of one tenant, and hangs: each write there takes nine seconds. Fails when the tenant's webhooks,
// for many objects, take all workers, and another's waits for them. Fails when an object that waits for a worker is forgotten.
func TestT6SlowWritesOfANamespaceTakeSomeWorkersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.api.respond(func(p patch) (int, http.Header) {
			if strings.Contains(p.user, ":flooding:") {
				<-time.After(9 * time.Second)
			}
			return http.StatusOK, nil
		})
		for i := range 200 {
			w.selector["team=a"] = append(w.selector["team=a"], fmt.Sprint("app-", i))
		}
		flood := w.hook(w.receiver("flooding", "github", "deployer", selecting("team", "a")))
		r := w.receiver("team-b", "github", "deployer", repo("app"))
		for range 30 {
			pass(2 * time.Second)
			h := w.hook(r)
			pass(500 * time.Millisecond)
			w.want(h, "done")
		}
		pass(10 * time.Minute)
		w.want(flood, "done")
	})
}
