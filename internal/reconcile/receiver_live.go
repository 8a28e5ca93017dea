package reconcile

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"notifier/internal/reconcile/apply"
	"notifier/internal/reconcile/kube"
)

// Receivers are the Receivers whose spec stands, as the appliers need them: they read here, at the time of the write, who writes
// and whether the target may still be asked for (invariant T2). A Receiver stays live while its Secret is missing or it is
// suspended, because a webhook that was accepted before keeps its promise (T4); it ends with a bad spec or its deletion.
//
// It is complete when Reconciler.Complete is closed, and tells nothing before.
type Receivers struct {
	mu    sync.RWMutex
	named map[string]map[string]*apply.Receiver // by namespace, then name
}

func newReceivers() *Receivers { return &Receivers{named: map[string]map[string]*apply.Receiver{}} }

// Live returns the live Receiver of that name.
func (r *Receivers) Live(namespace, name string) (apply.Receiver, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if found := r.named[namespace][name]; found != nil {
		return *found, true
	}
	return apply.Receiver{}, false
}

// InNamespace returns the live Receivers of a namespace, ordered by name.
func (r *Receivers) InNamespace(namespace string) []apply.Receiver {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]apply.Receiver, 0, len(r.named[namespace]))
	for found := range maps.Values(r.named[namespace]) {
		all = append(all, *found)
	}
	slices.SortFunc(all, func(a, b apply.Receiver) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (r *Receivers) put(live apply.Receiver) {
	live = live.Indexed()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.named[live.Namespace] == nil {
		r.named[live.Namespace] = map[string]*apply.Receiver{}
	}
	r.named[live.Namespace][live.Name] = &live
}

func (r *Receivers) remove(k kube.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.named[k.Namespace], k.Name)
	if len(r.named[k.Namespace]) == 0 {
		delete(r.named, k.Namespace)
	}
}
