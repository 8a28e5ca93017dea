package fair

// Queue holds items that wait and hands them out in turns: one of each namespace, over and over, and those of one namespace in the order
// in which they were pushed. It has the methods that a workqueue of client-go wants of a queue.
//
// Its methods must not be called at the same time. It holds a namespace only while it has items or is held.
type Queue[T any] struct {
	namespace func(T) string
	// order has the namespaces whose turn will come, the next one first.
	order    []string
	backlogs map[string]*backlog[T]
	// most is how many backlogs there were at a time.
	most int
	n    int
}

// spare is of how many namespaces a queue that has none keeps the room.
const spare = 256

// backlog is what waits of one namespace.
type backlog[T any] struct {
	items []T
	// held says that none may go, ordered that the namespace is in Queue.order.
	held, ordered bool
}

// NewQueue returns an empty queue of items, of which namespace tells the namespaces.
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

// Pop removes and returns the item whose turn it is. It panics when Peek finds none.
func (q *Queue[T]) Pop() T {
	if _, ok := q.Peek(); !ok {
		panic("fair: no item may go")
	}
	namespace := q.order[0]
	b := q.backlogs[namespace]
	item := b.items[0]
	b.items[0] = *new(T) // what was handed out does not live on in the slice
	b.items = b.items[1:]
	q.n--
	q.order, b.ordered = q.order[1:], false
	q.enter(namespace, b)
	q.forget(namespace, b)
	return item
}

// Peek returns what Pop would, and false when there is no item, or only items of namespaces that are held.
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

// Len returns how many items wait, those of namespaces that are held included.
func (q *Queue[T]) Len() int { return q.n }

// Touch leaves an item in its place that is pushed while it waits. A workqueue calls it in place of Push.
func (q *Queue[T]) Touch(T) {}

// Hold keeps all items of a namespace back until Release: what was popped of it is under way, and must be over before the next goes.
func (q *Queue[T]) Hold(namespace string) { q.backlog(namespace).held = true }

// Release ends Hold. The namespace's next turn comes after those of all others that wait.
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

// enter gives a namespace its turn after all others, if it has something that may go and no turn yet.
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
	if len(q.backlogs) == 0 && q.most > spare { // a map keeps the room of all that was in it
		q.order, q.backlogs, q.most = nil, map[string]*backlog[T]{}, 0
	}
}
