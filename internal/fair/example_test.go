package fair_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"notifier/internal/fair"
)

// message is an item of the example queues.
type message struct{ namespace, text string }

func namespaceOf(m message) string { return m.namespace }

// A consumer of batches: each batch has an item of every namespace. An item that is too large for the batch begins the next one.
func ExampleQueue() {
	q := fair.NewQueue(namespaceOf)
	for _, text := range []string{"one", "two", "three", "four"} {
		q.Push(message{"flood", text})
	}
	q.Push(message{"team-a", "five"})
	for q.Len() > 0 {
		var batch []string
		for room := 9; ; {
			next, ok := q.Peek()
			if room -= len(next.text); !ok || room < 0 {
				break
			}
			batch = append(batch, q.Pop().text)
		}
		fmt.Println(strings.Join(batch, " "))
	}
	// Output:
	// one five
	// two three
	// four
}

// A consumer that waits for the next item, as for a channel: a lock and a condition around the queue.
func ExampleQueue_consumer() {
	var mu sync.Mutex
	more := sync.NewCond(&mu)
	q := fair.NewQueue(namespaceOf)
	next := func() message {
		mu.Lock()
		defer mu.Unlock()
		for q.Len() == 0 {
			more.Wait()
		}
		return q.Pop()
	}
	go func() {
		for i := range 3 {
			mu.Lock()
			q.Push(message{"team-a", fmt.Sprint("number ", i)})
			mu.Unlock()
			more.Signal()
		}
	}()
	for range 3 {
		fmt.Println(next().text)
	}
	// Output:
	// number 0
	// number 1
	// number 2
}

// Three failed requests at once from each address, and one more every ten seconds.
func ExampleLimiters() {
	failures := fair.NewLimiters[string](rate.Every(10*time.Second), 3, 1024)
	for range 4 {
		fmt.Println(failures.Allow("192.0.2.1"))
	}
	fmt.Println(failures.Allow("198.51.100.1"))
	// Output:
	// true
	// true
	// true
	// false
	// true
}

// A quarter of a processor for each namespace, which may use a second of it at once.
func ExampleShare() {
	share := fair.NewShare(fair.ShareOptions{Window: 4 * time.Second, Namespace: time.Second})
	share.Spend("team-a", 3*time.Second)
	fmt.Println("team-a waits", share.Wait("team-a").Round(time.Second))
	fmt.Println("team-b waits", share.Wait("team-b"))
	// Output:
	// team-a waits 8s
	// team-b waits 0s
}

// Four requests at once, and one more of each namespace however many the others have in use.
func ExampleCapacity() {
	all := fair.NewCapacity(4)
	flood, team := all.Within(6, 1), all.Within(6, 1)
	n := 0
	for {
		if _, ok := flood.TryAcquire(1); !ok {
			break
		}
		n++
	}
	use, ok := team.TryAcquire(1)
	fmt.Println("the flood has", n, "in use, the other namespace is served:", ok)
	use.Release()
	// Output:
	// the flood has 5 in use, the other namespace is served: true
}

// One request at a time for each namespace, eight for all.
func ExampleCapacities() {
	turns := fair.NewCapacities[string](fair.NewCapacity(8), 1, 0)
	use, err := turns.Acquire(context.Background(), "team-a", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(turns.Len(), "namespace")
	use.Release()
	fmt.Println(turns.Len(), "namespaces")
	// Output:
	// 1 namespace
	// 0 namespaces
}
