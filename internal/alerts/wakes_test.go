package alerts

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
)

// Fails when a queue that is to be woken earlier than before is woken late.
func TestQueuesAreWokenInTheOrderOfTheirTimes(t *testing.T) {
	now := time.Now()
	var w wakes
	queues := make([]*queue, 5)
	for i := range queues {
		queues[i] = newQueue(event.ProviderKey{Provider: fmt.Sprint(i)}, &share{}, now)
		w.set(queues[i], now.Add(time.Duration(10+i)*time.Second))
	}
	w.set(queues[3], now.Add(5*time.Second))
	w.set(queues[4], now.Add(time.Hour)) // later than it is set
	w.drop(queues[1])
	var woken []string
	for at := now; at.Before(now.Add(2 * time.Hour)); at = at.Add(time.Second) {
		for q := w.due(at); q != nil; q = w.due(at) {
			woken = append(woken, fmt.Sprintf("%s after %s", q.key.Provider, at.Sub(now)))
		}
	}
	if diff := cmp.Diff([]string{"3 after 5s", "0 after 10s", "2 after 12s", "4 after 14s"}, woken); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
