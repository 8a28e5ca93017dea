package apply

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// T4: the object of a webhook does not exist, and the API server says so slowly. Meanwhile the object is made, and another webhook comes in. Fails
// when the answer about the time before ends the claim of the second webhook.
func TestT4AnObjectThatIsMadeWhileARequestFailsGetsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		began := time.Now()
		w.api.respond(func(p patch) (int, http.Header) {
			if p.at.Sub(began) > time.Second {
				return http.StatusOK, nil
			}
			<-time.After(3 * time.Second)
			return http.StatusNotFound, nil
		})
		r := w.receiver("team", "app", "deployer", repo("app"))
		first := w.hook(r)
		pass(1500 * time.Millisecond)
		made := time.Now()
		second := w.hook(r)
		pass(time.Minute)
		w.want(first, "done")
		w.want(second, "done")
		if !w.stampedFrom(made, "app") {
			t.Errorf("the object was made at %v, and no request is stamped from then on: %+v", made, w.api.seen())
		}
	})
}

// searchedSlowly are Receivers of which a search takes some time.
type searchedSlowly struct{ *fakeReceivers }

func (s searchedSlowly) InNamespace(namespace string) []Receiver {
	all := s.fakeReceivers.InNamespace(namespace)
	<-time.After(3 * time.Second)
	return all
}

// T4: the Receiver of a trigger that failed is deleted, and a search for another takes some time. Meanwhile another Receiver for the same object is
// made, and a webhook comes in. Fails when the search, which did not find it, ends the claim of its webhook.
func TestT4AReceiverThatIsMadeDuringASearchGetsItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Receivers = searchedSlowly{o.Receivers.(*fakeReceivers)} })
		defer w.stop()
		w.api.respond(always(http.StatusServiceUnavailable))
		first := w.hook(w.receiver("team", "one", "deployer", repo("app")))
		pass(time.Second / 2)
		w.receivers.remove("team", "one")
		w.api.respond(nil)
		pass(time.Second) // the next try began
		made := time.Now()
		second := w.hook(w.receiver("team", "two", "deployer", repo("app")))
		pass(time.Minute)
		w.want(first, "done")
		w.want(second, "done")
		if !w.stampedFrom(made, "app") {
			t.Errorf("the Receiver was made at %v, and no request is stamped from then on: %+v", made, w.api.seen())
		}
	})
}
