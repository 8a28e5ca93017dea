package subscribe

import (
	"encoding/json"
	"slices"

	"notifier/internal/event"
)

// consistent fails the test unless the state of the term is that of its Receivers, and their table has what it is made of.
func (p *play) consistent() {
	p.t.Helper()
	w := p.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.together < 1 || w.together > mostTogether {
		p.t.Errorf("%d triggers together", w.together)
	}
	for id, t := range w.triggers {
		if idOf(t) != id {
			p.t.Errorf("the trigger of %v is under %v", idOf(t), id)
		}
	}
	for id, t := range w.held {
		if idOf(t) != id {
			p.t.Errorf("the held trigger of %v is under %v", idOf(t), id)
		}
		of := subscriber{t.Namespace, t.Receiver}
		g := w.guards[of]
		s, exists := w.Subscriptions.get(of)
		if exists && s.UID == t.ReceiverUID && s.Generation == t.Generation && !(g != nil && g.uid == s.UID && g.held) && !p.later(id, t) {
			p.t.Errorf("%v holds a trigger, and its guard does not", id)
		}
	}
	for id, g := range w.guards {
		if s, exists := w.Subscriptions.get(id); exists && g.of(s) {
			p.reported(id, g)
		}
	}
	p.table.mu.RLock()
	defer p.table.mu.RUnlock()
	for namespace, n := range p.table.namespaces {
		awake := 0
		for name, s := range n.named {
			if s.Name != name || s.Namespace != namespace || s.stats.UID != s.UID {
				p.t.Errorf("%s/%s is %s/%s, counted as %s", namespace, name, s.Namespace, s.Name, s.stats.UID)
			}
			if s.Suspended {
				continue
			}
			awake++
			if !slices.ContainsFunc(n.awake, func(other subscribed) bool { return other.Subscription == s.Subscription && other.stats == s.stats }) {
				p.t.Errorf("%s/%s is not awake", namespace, name)
			}
		}
		if len(n.awake) != awake || len(n.named) == 0 {
			p.t.Errorf("%d of %d are awake in %s, want %d", len(n.awake), len(n.named), namespace, awake)
		}
	}
}

// later reports whether a later trigger than a held one waits or is stored.
func (p *play) later(id triggerID, held event.Trigger) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := func(t event.Trigger) bool {
		return idOf(t) == id && t.ReceiverUID == held.ReceiverUID && !t.Accepted.Before(held.Accepted)
	}
	return is(p.watch.triggers[id]) || slices.ContainsFunc(p.published, is)
}

// reported checks the stored report of a guard, unless it is to be replaced. The next worker continues from it.
func (p *play) reported(id subscriber, g *guard) {
	if _, pending := p.watch.reports[id]; pending {
		return
	}
	stored, known := p.get(LoopPrefix + id.namespace + "/" + id.name)
	var l Loop
	if known && json.Unmarshal([]byte(stored), &l) != nil {
		p.t.Errorf("the report of %v is %q", id, stored)
	}
	is := g.report()
	same := l == is
	if !is.Looping && !is.Held {
		same = !(l.Looping || l.Held) || l.UID != is.UID
	}
	if !same {
		p.t.Errorf("the report of %v is %+v, want %+v", id, l, is)
	}
}

// empty fails the test if the term still has anything to do.
func (p *play) empty() {
	p.t.Helper()
	w := p.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.guards) + len(w.triggers) + len(w.held) + len(w.reports) + len(w.outcomes); n > 0 {
		p.t.Errorf("%d guards, %d triggers, %d held ones, %d reports and %d outcomes are left",
			len(w.guards), len(w.triggers), len(w.held), len(w.reports), len(w.outcomes))
	}
}
