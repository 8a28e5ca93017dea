package apply

import (
	"testing"
	"testing/synctest"
	"time"
)

// T4 with replicas: the clock of the replica that accepted a webhook is ahead, and another replica accepts one while the request for the first
// is under way. Fails when the second request has the stamp of the first: it changes nothing, so that no controller sees it.
func TestT4EachRequestHasAStampOfItsOwnThoughAReplicasClockIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.api.delay = 500 * time.Millisecond
		r := w.receiver("team-a", "github", "deployer", repo("app"))
		ahead := trigger(r, r.Targets[0])
		ahead.Accepted = time.Now().Add(time.Hour)
		first := w.send(ahead)
		for len(w.api.seen()) == 0 {
			pass(100 * time.Millisecond)
		}
		second := w.hook(r)
		pass(5 * time.Second)
		w.want(first, "done")
		w.want(second, "done")
		all := w.api.seen()
		if len(all) != 2 || all[0].stamp == all[1].stamp {
			t.Errorf("written: %+v", all)
		}
	})
}

// T4 with replicas: the clock of the replica that accepted a webhook is ahead, and the API server is slow: another webhook for the object, of the
// same Receiver or of another one with its account, is taken up while the request for the first is under way. Fails when that request counts for
// the second webhook, by its stamp, though it was sent before.
func TestT4ARequestMeetsNoWebhookThatCameLaterThoughAReplicasClockIsAhead(t *testing.T) {
	for name, second := range map[string]string{"the same Receiver": "github", "another Receiver": "gitlab"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				w.api.delay = 5 * time.Second
				ahead := trigger(w.receiver("team-a", "github", "deployer", repo("app")), repo("app"))
				ahead.Accepted = time.Now().Add(time.Hour)
				first := w.send(ahead)
				for len(w.api.seen()) == 0 {
					pass(100 * time.Millisecond)
				}
				pass(time.Second)
				late := trigger(w.receiver("team-a", second, "deployer", repo("app")), repo("app"))
				if second != "github" {
					late.Key = "another" // the message of another account or selector that asks for the object
				}
				h := w.send(late)
				pass(20 * time.Second)
				w.want(first, "done")
				w.want(h, "done")
				if all := w.api.seen(); len(all) != 2 || all[0].stamp == all[1].stamp {
					t.Errorf("written: %+v", all)
				}
			})
		})
	}
}
