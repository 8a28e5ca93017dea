package apply

import (
	"sync"

	"notifier/internal/event"
)

// groupKind is the group and kind of targets. A target without a group differs from all targets that name one.
type groupKind struct {
	any         bool
	group, kind string
}

// sameness is equal for targets with the same meaning, like event.TargetKey, but without an account and without a digest.
type sameness struct {
	groupKind
	name, selector string
}

func samenessOf(t event.Target) sameness {
	return sameness{groupKind{t.APIVersion == "", groupOf(t.APIVersion), t.Kind}, t.Name, t.Selector()}
}

// index finds a Receiver's targets without a scan: a tenant has as many triggers as all its Receivers have targets, and each is
// resolved repeatedly. It is filled for the first trigger, because most Receivers of a large cluster are idle.
type index struct {
	once sync.Once
	// same maps to the first such target in Receiver.Targets.
	same map[sameness]int
	// selecting has the targets with a selector, by the group and kind that they select from.
	selecting map[groupKind][]int
}

// Indexed returns the Receiver with its targets ready to be found. It is called once for each state of a Receiver; a Receiver without
// that call asks for nothing.
func (r Receiver) Indexed() Receiver {
	r.index = new(index)
	return r
}

// targets returns the index of the Receiver's targets.
func (r *Receiver) targets() *index {
	if r.index == nil {
		return &index{}
	}
	r.index.once.Do(func() { r.index.fill(r) })
	return r.index
}

func (x *index) fill(r *Receiver) {
	x.same, x.selecting = make(map[sameness]int, len(r.Targets)), map[groupKind][]int{}
	for i, t := range r.Targets {
		same := samenessOf(t)
		if _, known := x.same[same]; !known {
			x.same[same] = i
		}
		if t.Selects() {
			x.selecting[same.groupKind] = append(x.selecting[same.groupKind], i)
		}
	}
}
