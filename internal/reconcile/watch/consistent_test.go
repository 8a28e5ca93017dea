package watch

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// consistent fails the test unless the counts of a leading watcher are those of its objects and POSTs. It sees them between two steps.
func (w *Watcher) consistent(t *testing.T) {
	t.Helper()
	lead := w.leading.Load()
	if lead == nil {
		return
	}
	for _, found := range lead.inconsistencies() {
		t.Error(found)
	}
}

func (t *publisher) inconsistencies() (found []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wrong := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	waiting := 0
	for it, s := range t.subjects {
		waiting += len(s.pending)
		for i, tr := range s.pending {
			if last := i == len(s.pending)-1; !last && tr.decided == nil && !tr.gone {
				wrong("%s: the transition %d of %d is not decided", it, i, len(s.pending))
			}
			if tr.gone && i > 0 && s.pending[i-1].gone {
				wrong("%s ends twice", it)
			}
		}
		o := t.current(it)
		in := t.cache.informerOf(it.kind)
		if in == nil || t.publishing[it.kind] != in {
			continue
		}
		if o == nil && len(s.pending) == 0 {
			wrong("%s is kept, and does not exist", it)
		}
		if o != nil {
			if _, terminal := o.terminal(); s.seen == o.ResourceVersion && terminal == s.came.IsZero() {
				wrong("%s is in a terminal state: %t, and came into it at %s", it, terminal, s.came)
			}
		}
	}
	if counted := int(testutil.ToFloat64(t.metrics.waiting)); counted != waiting {
		wrong("%d transitions are counted, of %d", counted, waiting)
	}
	for kind, in := range t.publishing {
		if t.cache.informerOf(kind) != in {
			wrong("%s is published of a former informer", kind.Kind)
		}
	}
	for _, kind := range kinds {
		if counted := testutil.ToFloat64(t.metrics.publishing.WithLabelValues(kind.Kind)) == 1; counted != (t.publishing[kind] != nil) {
			wrong("%s counts as published: %t", kind.Kind, counted)
		}
	}
	return append(found, t.posts.inconsistencies()...)
}

func (n *posts) inconsistencies() (found []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := 0
	for _, it := range n.items.Keys() {
		kept, _ := n.items.Peek(it)
		all += len(kept)
		if len(kept) == 0 || len(kept) > maxPostsPerObject {
			found = append(found, fmt.Sprintf("%d posts are kept of %s", len(kept), it))
		}
		for i, x := range kept {
			if x.item != it || i > 0 && x.seq < kept[i-1].seq {
				found = append(found, fmt.Sprintf("the posts of %s are not its own, or not in order", it))
			}
		}
	}
	if counted := int(testutil.ToFloat64(n.gauge)); n.n != all || counted != all {
		found = append(found, fmt.Sprintf("%d and %d posts are counted, of %d", n.n, counted, all))
	}
	return found
}
