package reconcile

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"notifier/internal/reconcile/apply"
	"notifier/internal/reconcile/kube"
)

// Receivers are the live Receivers: those with a good spec. The appliers read them at the time of a write, for the service account and to
// check that the Receiver still names the target (invariant T2). A Receiver stays live while its Secret is missing or it is suspended,
// because a webhook accepted before is still due (T4). It ends with a bad spec or its deletion.
//
// The set is complete when Reconciler.Complete is closed, and is not to be read before.
type Receivers struct {
	mu sync.RWMutex
	// named are those of each namespace, ordered by name. Most namespaces have a few, for which a map would be mostly empty space.
	named map[string][]*apply.Receiver
	// changed is called with each new or changed Receiver.
	changed func(namespace, name string)
}

func newReceivers() *Receivers {
	return &Receivers{named: map[string][]*apply.Receiver{}, changed: func(string, string) {}}
}

// find returns the place of a name among the Receivers of a namespace, and whether one has it.
func (r *Receivers) find(namespace, name string) (place int, found bool) {
	return slices.BinarySearchFunc(r.named[namespace], name, func(o *apply.Receiver, name string) int {
		return strings.Compare(o.Name, name)
	})
}

// Live returns the live Receiver of that name, and false if there is none.
func (r *Receivers) Live(namespace, name string) (apply.Receiver, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if place, found := r.find(namespace, name); found {
		return *r.named[namespace][place], true
	}
	return apply.Receiver{}, false
}

// InNamespace returns the live Receivers of a namespace, ordered by name.
func (r *Receivers) InNamespace(namespace string) []apply.Receiver {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]apply.Receiver, 0, len(r.named[namespace]))
	for _, one := range r.named[namespace] {
		all = append(all, *one)
	}
	return all
}

// Namespaces returns the namespaces that have live Receivers, in no order.
func (r *Receivers) Namespaces() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Keys(r.named))
}

// Follow sets the function that is called with every new Receiver, and with every one whose UID, generation or service account changed.
func (r *Receivers) Follow(changed func(namespace, name string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = changed
}

func (r *Receivers) put(live apply.Receiver) {
	live = live.Indexed()
	r.mu.Lock()
	all, changed := r.named[live.Namespace], r.changed
	var before *apply.Receiver
	if place, found := r.find(live.Namespace, live.Name); found {
		before, all[place] = all[place], &live
	} else {
		r.named[live.Namespace] = slices.Insert(all, place, &live)
	}
	r.mu.Unlock()
	if before == nil || before.UID != live.UID || before.Generation != live.Generation || before.ServiceAccount != live.ServiceAccount {
		changed(live.Namespace, live.Name)
	}
}

func (r *Receivers) remove(k kube.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	place, found := r.find(k.Namespace, k.Name)
	if !found {
		return
	}
	if r.named[k.Namespace] = slices.Delete(r.named[k.Namespace], place, place+1); len(r.named[k.Namespace]) == 0 {
		delete(r.named, k.Namespace)
	}
}
