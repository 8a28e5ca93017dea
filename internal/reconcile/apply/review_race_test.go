package apply

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// changedMeanwhile are Receivers that change right after they were listed.
type changedMeanwhile struct {
	*fakeReceivers
	change atomic.Pointer[func()]
}

func (c *changedMeanwhile) InNamespace(namespace string) []Receiver {
	all := c.fakeReceivers.InNamespace(namespace)
	if change := c.change.Swap(nil); change != nil {
		(*change)()
	}
	return all
}

// Fails when a namespace is forgotten that had no Receivers a moment ago: nobody reviews those that it has by now, and what a review found is
// shown for good.
func TestANamespaceIsReviewedThatHadNoReceiversForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rbac, receivers := newRBAC(), &changedMeanwhile{}
		w := newWorld(t, reviewing(t, rbac), func(o *Options) {
			receivers.fakeReceivers = o.Receivers.(*fakeReceivers)
			o.Receivers = receivers
		})
		defer w.stop()
		w.receiver("team-a", "early", "weak", repo("app"))
		pass(2 * w.opts.ReviewInterval)
		w.receivers.remove("team-a", "early")
		change := func() { w.receiver("team-a", "late", "weak", repo("app")) }
		receivers.change.Store(&change)
		pass(w.opts.ReviewInterval + 2*reviewDelay)
		w.wantShown("team-a/late", "Forbidden "+repositories+" app")
		rbac.change(func() { rbac.may["weak gitrepositories *"] = true })
		pass(2 * w.opts.ReviewInterval)
		w.wantShown("team-a/late")
	})
}
