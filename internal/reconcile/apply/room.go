package apply

// maxClaims bounds the claims of one namespace, at some 300 bytes each. A tenant's selectors each select all its objects, and the product of
// the two numbers has no other bound. Beyond it jobs wait before their targets are resolved. A job that has begun gets all its claims, so
// there may be more by the objects that the jobs select which begin at the same time.
const maxClaims = 16 << 10

// claimed is the claims of one namespace. The Applier's lock protects it.
type claimed struct {
	count int
	// waiting are the jobs that wait for room, the longest waiting first. Some may have ended since.
	waiting []jobKey
}

// claimsOf returns the claims of a namespace. The caller holds the lock.
func (a *Applier) claimsOf(namespace string) *claimed {
	c := a.claims[namespace]
	if c == nil {
		c = &claimed{}
		a.claims[namespace] = c
	}
	return c
}

// hasRoom reports whether a job's target may be resolved into claims now. Otherwise the job waits. The caller holds the lock.
func (a *Applier) hasRoom(j *job) bool {
	c := a.claims[j.key.namespace]
	if c == nil || c.count < maxClaims {
		j.waits = false
		return true
	}
	if !j.waits {
		j.waits = true
		c.waiting = append(c.waiting, j.key)
	}
	return false
}

// drop ends a claim of a job. The caller holds the lock.
func (a *Applier) drop(j *job, k slotKey) {
	delete(j.pending, k)
	a.claimsOf(j.key.namespace).count--
	a.useRoom(j.key.namespace)
}

// useRoom wakes the next job of a namespace that waits for room, if there is any. It is called when a claim ends, and when the job that was
// woken last has been resolved. The caller holds the lock.
func (a *Applier) useRoom(namespace string) {
	c := a.claims[namespace]
	if c == nil {
		return
	}
	for len(c.waiting) > 0 && c.count < maxClaims {
		key := c.waiting[0]
		c.waiting = c.waiting[1:]
		if j := a.jobs[key]; j != nil && j.waits {
			j.waits = false
			a.queue.Enqueue(item{namespace: key.namespace, job: key.key})
			return
		}
	}
	if c.count == 0 && len(c.waiting) == 0 {
		delete(a.claims, namespace)
	}
}
