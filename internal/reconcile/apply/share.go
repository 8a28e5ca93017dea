package apply

import (
	"slices"

	"notifier/internal/event"
)

// shareBatch is how many claims end in one critical section of the term's lock, which other tenants need.
const shareBatch = 64

// sharing is a waiting claim with the trigger that it had when it was read.
type sharing struct {
	*attempt
	trigger *event.Trigger
}

// others returns the waiting claims to an object that a request may have met. The caller holds the lock.
func (t *term) others(k item, o outcome) []sharing {
	var found []sharing
	for _, other := range t.slots[k].waiting {
		if other.job.metBy(o) {
			found = append(found, sharing{other, other.job.trigger})
		}
	}
	return found
}

// share ends the other claims to the object that the request of one account has met: those whose Receivers ask for it now, as the same
// account. Another account's claim stays, since the permissions of the one prove nothing about the other. A claim whose own Receiver no
// longer asks stays until its turn: a search for other Receivers that ask would read all Receivers of the namespace.
//
// share reads the Receivers' targets without the lock. A claim that got another trigger or was given up meanwhile stays. So does a
// claim whose trigger was taken after the request was stamped: webhooks were coalesced into it until then.
func (t *term) share(k item, others []sharing, o outcome) (done []*event.Message[event.Trigger]) {
	met := slices.DeleteFunc(others, func(c sharing) bool {
		r, alive := t.own(c.trigger)
		if !alive || r.ServiceAccount != o.receiver.ServiceAccount {
			return true
		}
		_, why := t.asked(r, c.trigger)
		return why != ""
	})
	for some := range slices.Chunk(met, shareBatch) {
		done = append(done, t.end(k, some, o)...)
	}
	return done
}

// end ends claims that a request has met, each for the Receiver whose webhook its trigger was.
func (t *term) end(k item, met []sharing, o outcome) []*event.Message[event.Trigger] {
	t.mu.Lock()
	defer t.mu.Unlock()
	done := make([]*event.Message[event.Trigger], 0, len(met))
	well := map[string]bool{}
	for _, c := range met {
		j := c.job
		if j.pending[k] != c.attempt || j.trigger != c.trigger || !j.metBy(o) {
			continue
		}
		t.drop(j, k)
		t.slots[k].leave(c.attempt)
		t.metrics.shared.Inc()
		well[c.trigger.Receiver] = true
		done = append(done, t.finish(j))
	}
	if len(well) > 0 {
		t.refusals.allow(k.namespace, o.receiver.ServiceAccount, well, o.resource, k.object)
	}
	return done
}
