package fair

// Queue keeps waiting items and returns them in turns: one item of each namespace, over and over. The items of one namespace keep
// the order in which they were pushed. It has the methods that a workqueue of client-go requires of a queue.
//
// Its methods must not be called at the same time. It remembers a namespace only while it has items or is held.
type Queue[T any] struct {
	namespace func(T) string
	// order lists the namespaces that have a turn, the next one first.
	order    []string
	backlogs map[string]*backlog[T]
	// most is the largest number of backlogs since the memory was last dropped.
	most int
	n    int
}

// spareNamespaces is the number of namespaces for which an empty queue keeps its memory.
const spareNamespaces = 256

// backlog has the waiting items of one namespace.
type backlog[T any] struct {
	items []T
	// held says that no item may be popped, ordered that the namespace is in Queue.order.
	held, ordered bool
}

// NewQueue returns an empty queue of items. namespace returns the namespace of an item.
func NewQueue[T any](namespace func(T) string) *Queue[T] {
	return &Queue[T]{namespace: namespace, backlogs: map[string]*backlog[T]{}}
}

// Push adds an item behind the others of its namespace.
func (q *Queue[T]) Push(item T) {
	namespace := q.namespace(item)
	b := q.backlog(namespace)
	b.items = append(b.items, item)
	q.n++
	q.enter(namespace, b)
}

// Pop removes and returns the next item. It panics if Peek finds none.
func (q *Queue[T]) Pop() T {
	if _, ok := q.Peek(); !ok {
		panic("fair: no item may go")
	}
	namespace := q.order[0]
	b := q.backlogs[namespace]
	item := b.items[0]
	b.items[0] = *new(T) // so that the slice does not keep the item in memory
	b.items = b.items[1:]
	q.n--
	q.order, b.ordered = q.order[1:], false
	q.enter(namespace, b)
	q.forget(namespace, b)
	return item
}

// Peek returns the item that Pop would return. It returns false if there is no item, or only items of held namespaces.
func (q *Queue[T]) Peek() (item T, ok bool) {
	for len(q.order) > 0 {
		b := q.backlogs[q.order[0]]
		if !b.held {
			return b.items[0], true
		}
		q.order, b.ordered = q.order[1:], false
	}
	return item, false
}

// Len returns the number of waiting items, including those of held namespaces.
func (q *Queue[T]) Len() int { return q.n }

// Touch leaves a waiting item in its place when it is pushed again. A workqueue then calls it in place of Push.
func (q *Queue[T]) Touch(T) {}

// Hold keeps all items of a namespace in the queue until Release. It lets the caller finish an item before it pops the next one of
// the same namespace.
func (q *Queue[T]) Hold(namespace string) { q.backlog(namespace).held = true }

// Release ends Hold. The namespace's next turn is after those of all others that wait.
func (q *Queue[T]) Release(namespace string) {
	if b := q.backlogs[namespace]; b != nil && b.held {
		b.held = false
		q.enter(namespace, b)
		q.forget(namespace, b)
	}
}

func (q *Queue[T]) backlog(namespace string) *backlog[T] {
	b := q.backlogs[namespace]
	if b == nil {
		b = &backlog[T]{}
		q.backlogs[namespace] = b
		q.most = max(q.most, len(q.backlogs))
	}
	return b
}

// enter gives a namespace its turn after all others, if it has an item, is not held and has no turn yet.
func (q *Queue[T]) enter(namespace string, b *backlog[T]) {
	if !b.ordered && !b.held && len(b.items) > 0 {
		b.ordered = true
		q.order = append(q.order, namespace)
	}
}

func (q *Queue[T]) forget(namespace string, b *backlog[T]) {
	if len(b.items) == 0 && !b.held {
		delete(q.backlogs, namespace)
	}
	if len(q.backlogs) == 0 && q.most > spareNamespaces { // a map never shrinks
		q.order, q.backlogs, q.most = nil, map[string]*backlog[T]{}, 0
	}
}
