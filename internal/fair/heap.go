package fair

// Heap is a heap for container/heap whose items know their index, so that each can be moved or removed. No other item is before the
// first.
type Heap[T HeapItem[T]] []T

// HeapItem is an item of a Heap.
type HeapItem[T any] interface {
	// Before reports whether the item precedes another.
	Before(other T) bool
	// Index is where the heap notes the item's index, NotInHeap after its removal.
	Index() *int
}

// NotInHeap is the index of an item that is in no heap.
const NotInHeap = -1

// Len implements heap.Interface.
func (h Heap[T]) Len() int { return len(h) }

// Less implements heap.Interface.
func (h Heap[T]) Less(i, j int) bool { return h[i].Before(h[j]) }

// Swap implements heap.Interface.
func (h Heap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].Index(), *h[j].Index() = i, j
}

// Push implements heap.Interface.
func (h *Heap[T]) Push(x any) {
	item := x.(T) //nolint:forcetypeassert // nothing else is pushed
	*item.Index() = len(*h)
	*h = append(*h, item)
}

// Pop implements heap.Interface.
func (h *Heap[T]) Pop() any {
	last := len(*h) - 1
	item := (*h)[last]
	clear((*h)[last:])
	*h = (*h)[:last]
	*item.Index() = NotInHeap
	return item
}
