package kube

import "k8s.io/client-go/util/workqueue"

// NewQueue returns a queue in which namespaces take turns, so that one with many items is waited for by itself alone. Within a
// namespace the order is that of arrival.
func NewQueue[T comparable](namespace func(T) string) workqueue.TypedDelayingInterface[T] {
	return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{
		Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{
			Queue: &turns[T]{namespace: namespace, items: map[string][]T{}},
		}),
	})
}

// turns are the items that wait in a queue. The workqueue around it holds its lock during every call.
type turns[T comparable] struct {
	namespace func(T) string
	// order has the namespaces with items, the next one first.
	order []string
	items map[string][]T
	n     int
}

// Touch leaves an item that is added again in its place.
func (t *turns[T]) Touch(T) {}

// Push adds an item.
func (t *turns[T]) Push(item T) {
	namespace := t.namespace(item)
	if len(t.items[namespace]) == 0 {
		t.order = append(t.order, namespace)
	}
	t.items[namespace] = append(t.items[namespace], item)
	t.n++
}

// Len returns the number of items.
func (t *turns[T]) Len() int { return t.n }

// Pop takes the next item of the namespace whose turn it is.
func (t *turns[T]) Pop() T {
	namespace := t.order[0]
	t.order = t.order[1:]
	items := t.items[namespace]
	item := items[0]
	t.n--
	if len(items) == 1 {
		delete(t.items, namespace)
		return item
	}
	t.items[namespace] = items[1:]
	t.order = append(t.order, namespace)
	return item
}
