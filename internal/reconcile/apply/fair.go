package apply

// item is work on one object, or with a job the resolution of that job's target.
type item struct {
	namespace string
	job       string
	object    object
}

// object names an object within a namespace, whatever the version of its API.
type object struct{ group, kind, name string }

// fair is a queue in which namespaces take turns; within one the order is that of arrival. The workqueue around it holds its
// lock during every call.
type fair struct {
	// turns has the namespaces with items, the next one first.
	turns []string
	items map[string][]item
	n     int
}

func newFair() *fair { return &fair{items: map[string][]item{}} }

// Touch leaves an item that is added again in its place.
func (f *fair) Touch(item) {}

// Push adds an item.
func (f *fair) Push(it item) {
	if len(f.items[it.namespace]) == 0 {
		f.turns = append(f.turns, it.namespace)
	}
	f.items[it.namespace] = append(f.items[it.namespace], it)
	f.n++
}

// Len returns the number of items.
func (f *fair) Len() int { return f.n }

// Pop takes the next item of the namespace whose turn it is.
func (f *fair) Pop() item {
	namespace := f.turns[0]
	f.turns = f.turns[1:]
	items := f.items[namespace]
	it := items[0]
	f.n--
	if len(items) == 1 {
		delete(f.items, namespace)
		return it
	}
	f.items[namespace] = items[1:]
	f.turns = append(f.turns, namespace)
	return it
}
