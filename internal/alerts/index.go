package alerts

import "notifier/internal/event"

// anyName is the name in a source that selects all objects of its kind.
const anyName = "*"

// index finds an object's candidates by kind and name. It belongs to one namespace, whose lock protects it.
type index struct {
	kinds map[string]*kindIndex
	of    map[*Alert][]*candidate
}

// kindIndex has the candidates of a kind, unordered.
type kindIndex struct {
	named map[string][]*candidate
	any   []*candidate
}

// sourceKey is a kind and an object's name or anyName.
type sourceKey struct{ kind, name string }

// candidate is an Alert with the selectors of its sources of one key.
type candidate struct {
	alert *Alert
	// selectors are the labels that an object must have, one map for each source. A nil map asks for none; an empty map asks that the object
	// be known.
	selectors []map[string]string
	key       sourceKey
	at        int // in the list of its key
}

// matching appends to into the Alerts that have a source for the object, unordered. An Alert that matches both by its name and by anyName
// is appended twice. considered counts the compared sources.
func (i *index) matching(o event.ObjectReference, labels map[string]string, into []*Alert) (_ []*Alert, considered int) {
	kind := i.kinds[o.Kind]
	if kind == nil {
		return into, 0
	}
	for _, list := range [2][]*candidate{kind.named[o.Name], kind.any} {
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
		if wanted == nil || labels != nil && event.HasLabels(labels, wanted) {
			return i + 1, true
		}
	}
	return len(c.selectors), false
}

// add adds an Alert unless it is suspended. A nil index stays nil.
func (i *index) add(a *Alert) {
	if i == nil || a.suspended {
		return
	}
	mine := map[sourceKey]*candidate{}
	for _, s := range a.sources {
		key := sourceKey{s.Kind, s.Name}
		c := mine[key]
		if c == nil {
			c = &candidate{alert: a, key: key}
			mine[key] = c
			i.of[a] = append(i.of[a], c)
			list := i.list(key)
			c.at = len(list)
			i.setList(key, append(list, c))
		}
		c.selectors = append(c.selectors, s.MatchLabels)
	}
}

// remove removes an Alert. Both the Alert and the index may be nil.
func (i *index) remove(a *Alert) {
	if i == nil || a == nil {
		return
	}
	for _, c := range i.of[a] {
		list := i.list(c.key)
		last := len(list) - 1
		list[c.at], list[last].at = list[last], c.at
		list[last] = nil
		i.setList(c.key, list[:last])
	}
	delete(i.of, a)
}

// list returns the candidates of a key.
func (i *index) list(key sourceKey) []*candidate {
	switch kind := i.kinds[key.kind]; {
	case kind == nil:
		return nil
	case key.name == anyName:
		return kind.any
	default:
		return kind.named[key.name]
	}
}

// setList sets the candidates of a key. A kind or a name without candidates is dropped.
func (i *index) setList(key sourceKey, list []*candidate) {
	kind := i.kinds[key.kind]
	if kind == nil {
		kind = &kindIndex{named: map[string][]*candidate{}}
		i.kinds[key.kind] = kind
	}
	switch {
	case key.name == anyName:
		kind.any = list
	case len(list) == 0:
		delete(kind.named, key.name)
	default:
		kind.named[key.name] = list
	}
	if len(kind.any)+len(kind.named) == 0 {
		delete(i.kinds, key.kind)
	}
}
