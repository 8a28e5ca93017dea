package alerts

import "notifier/internal/event"

// anyName is the name in a source that selects all objects of its kind.
const anyName = "*"

// sourceKey is a kind and an object's name or anyName.
type sourceKey struct{ kind, name string }

// index has the candidates by the key of their sources, unordered. It belongs to one namespace, whose lock protects it.
type index map[sourceKey][]*candidate

// candidate is an Alert with the selectors of its sources of one key.
type candidate struct {
	alert *Alert
	// selectors are the labels that an object must have, one map for each source. A nil map asks for none; an empty map asks that the object
	// be known.
	selectors []map[string]string
	key       sourceKey
	at        int // in the list of its key
}

// of returns the candidates for an object: those by its name, and those by anyName.
func (i index) of(o event.ObjectReference) [2][]*candidate {
	return [2][]*candidate{i[sourceKey{o.Kind, o.Name}], i[sourceKey{o.Kind, anyName}]}
}

// matching appends to into the Alerts that have a source for the object, unordered. An Alert that matches both by its name and by anyName
// is appended twice. considered counts the compared sources.
func (i index) matching(o event.ObjectReference, labels map[string]string, into []*Alert) (_ []*Alert, considered int) {
	for _, list := range i.of(o) {
		for _, c := range list {
			n, selects := c.compare(labels)
			if considered += n; selects {
				into = append(into, c.alert)
			}
		}
	}
	return into, considered
}

// compare reports whether the labels satisfy one of the sources, and how many sources it compared.
func (c *candidate) compare(labels map[string]string) (considered int, selects bool) {
	for i, wanted := range c.selectors {
		if satisfy(labels, wanted) {
			return i + 1, true
		}
	}
	return len(c.selectors), false
}

// satisfy reports whether an object's labels, nil if they are not known, are those that a source wants.
func satisfy(labels, wanted map[string]string) bool {
	return wanted == nil || labels != nil && event.HasLabels(labels, wanted)
}

// add adds an Alert unless it is suspended.
func (i index) add(a *Alert) {
	if a.suspended {
		return
	}
	mine := map[sourceKey]*candidate{}
	for _, s := range a.sources {
		key := sourceKey{s.Kind, s.Name}
		c := mine[key]
		if c == nil {
			c = &candidate{alert: a, key: key, at: len(i[key])}
			mine[key] = c
			i[key] = append(i[key], c)
			a.candidates = append(a.candidates, c)
		}
		c.selectors = append(c.selectors, s.MatchLabels)
	}
}

// remove removes an Alert. It costs as much as the Alert's own sources.
func (i index) remove(a *Alert) {
	for _, c := range a.candidates {
		list := i[c.key]
		last := len(list) - 1
		list[c.at], list[last].at = list[last], c.at
		list[last] = nil
		if i[c.key] = list[:last]; last == 0 {
			delete(i, c.key)
		}
	}
	a.candidates = nil
}
