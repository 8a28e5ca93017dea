package alerts

import (
	"container/heap"
	"time"

	"notifier/internal/fair"
)

// wakes are the queues by their next wake time, the earliest first. A queue has at most one time.
type wakes struct{ fair.Heap[*queue] }

// Before implements fair.HeapItem, for wakes.
func (q *queue) Before(other *queue) bool { return q.wakeAt.Before(other.wakeAt) }

// Index implements fair.HeapItem.
func (q *queue) Index() *int { return &q.wakeIndex }

// set has q woken at the time given, or earlier if an earlier time was set before.
func (w *wakes) set(q *queue, at time.Time) {
	switch {
	case q.wakeIndex == fair.NotInHeap:
		q.wakeAt = at
		heap.Push(w, q)
	case at.Before(q.wakeAt):
		q.wakeAt = at
		heap.Fix(w, q.wakeIndex)
	}
}

// due removes and returns a queue whose time has come, or nil.
func (w *wakes) due(now time.Time) *queue {
	if w.Len() == 0 || w.Heap[0].wakeAt.After(now) {
		return nil
	}
	return heap.Pop(w).(*queue)
}

// drop removes q.
func (w *wakes) drop(q *queue) {
	if q.wakeIndex != fair.NotInHeap {
		heap.Remove(w, q.wakeIndex)
	}
}
