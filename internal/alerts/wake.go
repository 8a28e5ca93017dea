package alerts

import (
	"container/heap"
	"time"
)

// wakes are the queues by their next wake time, the earliest first. A queue has at most one time.
type wakes []*queue

func (w wakes) Len() int           { return len(w) }
func (w wakes) Less(i, j int) bool { return w[i].wakeAt.Before(w[j].wakeAt) }
func (w wakes) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].wakeIndex, w[j].wakeIndex = i, j
}

// Push implements heap.Interface.
func (w *wakes) Push(x any) {
	q := x.(*queue)
	q.wakeIndex = len(*w)
	*w = append(*w, q)
}

// Pop implements heap.Interface.
func (w *wakes) Pop() any {
	old := *w
	q := old[len(old)-1]
	old[len(old)-1] = nil
	*w = old[:len(old)-1]
	q.wakeIndex = notWaking
	return q
}

// notWaking is the wakeIndex of a queue that is not among the wakes.
const notWaking = -1

// set has q woken at the time given, or earlier if an earlier time was set before.
func (w *wakes) set(q *queue, at time.Time) {
	switch {
	case q.wakeIndex == notWaking:
		q.wakeAt = at
		heap.Push(w, q)
	case at.Before(q.wakeAt):
		q.wakeAt = at
		heap.Fix(w, q.wakeIndex)
	}
}

// due removes and returns a queue whose time has come, or nil.
func (w *wakes) due(now time.Time) *queue {
	if len(*w) == 0 || (*w)[0].wakeAt.After(now) {
		return nil
	}
	return heap.Pop(w).(*queue)
}

// drop removes q.
func (w *wakes) drop(q *queue) {
	if q.wakeIndex != notWaking {
		heap.Remove(w, q.wakeIndex)
	}
}
