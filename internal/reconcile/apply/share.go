package apply

import "slices"

// shareBatch is how many claims end in one critical section of the Applier's lock, which other tenants need.
const shareBatch = 64

// sharing is a waiting claim with the trigger that it had when it was read.
type sharing struct {
	*attempt
	trigger *indexedTrigger
}

// others returns the waiting claims to an object that a request may have met. The caller holds the lock.
func (a *Applier) others(k slotKey, o outcome) []sharing {
	var found []sharing
	for _, other := range a.slots[k].waiting {
		if other.job.metBy(o.stamp) {
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
func (a *Applier) share(k slotKey, others []sharing, o outcome) (settles []settle) {
	met := slices.DeleteFunc(others, func(c sharing) bool {
		r, alive := a.own(c.trigger)
		if !alive || r.ServiceAccount != o.receiver.ServiceAccount {
			return true
		}
		_, why := a.asked(r, c.trigger)
		return why != ""
	})
	for some := range slices.Chunk(met, shareBatch) {
		settles = append(settles, a.end(k, some, o)...)
	}
	return settles
}

// end ends claims that a request has met, each for the Receiver whose webhook its trigger was.
func (a *Applier) end(k slotKey, met []sharing, o outcome) []settle {
	a.mu.Lock()
	defer a.mu.Unlock()
	settles := make([]settle, 0, len(met))
	well := map[string]bool{}
	for _, c := range met {
		j := c.job
		if a.jobs[j.key] != j || j.pending[k] != c.attempt || j.trigger != c.trigger || !j.metBy(o.stamp) {
			continue
		}
		a.drop(j, k)
		a.slots[k].leave(c.attempt)
		a.metrics.shared.Inc()
		well[c.trigger.Receiver] = true
		settles = append(settles, a.finish(j))
	}
	if len(well) > 0 {
		a.refusals.allow(k.namespace, o.receiver.ServiceAccount, well, o.resource, k.object)
	}
	return settles
}
