package apply

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/fair"
)

// consistent fails the test unless the counts and indexes of the applier are those of its jobs, claims and refusals.
func (a *Applier) consistent(t *testing.T) {
	t.Helper()
	var found inconsistencies
	if term := a.term.Load(); term != nil {
		term.check(&found)
	}
	a.refusals.check(&found)
	found.equal("namespaces that are searched", a.searching.Len(), 0)
	for _, f := range found {
		t.Error(f)
	}
}

// inconsistencies are what is inconsistent.
type inconsistencies []string

func (f *inconsistencies) wrong(format string, args ...any) {
	*f = append(*f, fmt.Sprintf(format, args...))
}

func (f *inconsistencies) equal(of string, is, want int) {
	if is != want {
		f.wrong("%s: %d, want %d", of, is, want)
	}
}

func (t *term) check(found *inconsistencies) {
	t.mu.Lock()
	defer t.mu.Unlock()
	claims, waiting := map[string]int{}, 0
	for key, j := range t.jobs {
		j.check(key, found)
		claims[key.namespace] += len(j.pending)
		waiting += len(j.pending)
		for k, at := range j.pending {
			s := t.slots[k]
			if at.job != j || k.namespace != key.namespace || k.key != "" {
				found.wrong("the claim to %v belongs to another job", k)
			}
			if s == nil || at.place == fair.NotInHeap || at.place >= len(s.waiting) || s.waiting[at.place] != at {
				found.wrong("the claim to %v is not in its place", k)
			}
		}
	}
	for namespace, n := range t.claims {
		found.equal("claims of "+namespace, n, claims[namespace])
		if n == 0 {
			found.wrong("the count of %s is kept", namespace)
		}
	}
	for namespace, n := range claims {
		found.equal("counted claims of "+namespace, t.claims[namespace], n)
	}
	for k, s := range t.slots {
		waiting -= len(s.waiting)
		for i, at := range s.waiting {
			if i > 0 && at.Before(s.waiting[(i-1)/2]) {
				found.wrong("the claims to %v are not in order", k)
			}
			if at.turn >= s.turns || at.job.pending[k] != at || t.jobs[at.job.key] != at.job {
				found.wrong("a claim to %v is of no job", k)
			}
		}
		if s.last.After(time.Now()) {
			found.wrong("the last request for %v is to come", k)
		}
	}
	found.equal("claims without a place", waiting, 0)
	found.equal("pending triggers", int(testutil.ToFloat64(t.metrics.pending)), len(t.jobs))
	if t.reviews != nil {
		t.reviews.check(found)
	}
}

func (j *job) check(key item, found *inconsistencies) {
	if j.key != key || j.trigger.Key != key.key || j.trigger.Namespace != key.namespace || j.held.Value.Key != key.key {
		found.wrong("the job %v is that of %v", key, j.key)
	}
	if !j.stale && !j.expanding && len(j.pending) == 0 {
		found.wrong("nothing is left of the job %v", key)
	}
	if j.trigger.Accepted.Before(j.held.Value.Accepted) {
		found.wrong("the job %v works for an earlier trigger than it holds", key)
	}
	if !j.refused.IsZero() && (!j.stale || j.pause == 0) && !j.expanding && len(j.pending) == 0 {
		found.wrong("the job %v is refused and not tried again", key)
	}
}

func (v *reviewer) check(found *inconsistencies) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for namespace, r := range v.namespaces {
		if len(r.answers) > 2*maxQuestions || r.asked > 2*maxQuestions {
			found.wrong("%d answers to %d questions about %s", len(r.answers), r.asked, namespace)
		}
	}
}

func (b *refusals) check(found *inconsistencies) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for namespace, entries := range b.entries {
		if len(entries) == 0 {
			found.wrong("the refusals of %s are kept", namespace)
		}
		for name, p := range entries {
			if len(p.health.Denied) > maxDenied {
				found.wrong("%d refusals of %s/%s", len(p.health.Denied), namespace, name)
			}
			for i, d := range p.health.Denied {
				for _, other := range p.health.Denied[:i] {
					if d.same(other) {
						found.wrong("two refusals of %s/%s to %s", namespace, name, d.Object)
					}
				}
			}
		}
	}
}

// empty fails the test if anything is left of jobs, claims, slots, refusals and reviews.
func (a *Applier) empty(t *testing.T) {
	t.Helper()
	var found inconsistencies
	term := a.term.Load()
	term.mu.Lock()
	found.equal("jobs", len(term.jobs), 0)
	found.equal("slots", len(term.slots), 0)
	found.equal("namespaces with claims", len(term.claims), 0)
	term.mu.Unlock()
	found.equal("waiting work", term.queue.Len(), 0)
	if v := term.reviews; v != nil {
		v.mu.Lock()
		found.equal("namespaces to be reviewed", len(v.namespaces), 0)
		v.mu.Unlock()
	}
	b := a.refusals
	b.mu.Lock()
	found.equal("namespaces with refusals", len(b.entries), 0)
	found.equal("reports to be made", len(b.changed), 0)
	b.mu.Unlock()
	found.equal("waiting reports", b.queue.Len(), 0)
	for _, f := range found {
		t.Error(f)
	}
}
