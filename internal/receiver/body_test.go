package receiver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/receiver/limit"
)

// isFree takes the capacity, all of which is so many bytes, and reports whether nobody holds any.
func isFree(t *testing.T, r *limit.BodyCapacity, size int64) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	all, rest := limit.BodyUse{Capacity: r}, limit.BodyUse{Capacity: r}
	return all.TakeNow(size) && rest.TakeRest(ctx)
}

// Fails when bodies that arrive at once wait for capacity that they hold against each other.
func TestBodiesThatArriveTogetherAreAllTakenThoughTheRoomHasOne(t *testing.T) {
	const senders, step = 16, 64 << 10
	synctest.Test(t, func(t *testing.T) {
		admission := admission{newCapacity(senders, limit.MaxBody), DefaultLimits().Wait}
		line, tenant := newCapacity(senders, limit.MaxBody), newCapacity(senders, limit.MaxBody)
		var round, all sync.WaitGroup // round ends when each has taken its first step
		round.Add(senders)
		for i := range senders {
			all.Go(func() {
				p := permit{bodies: [3]limit.BodyUse{{Capacity: &line.bodies}, {Capacity: &tenant.bodies}, {Capacity: &admission.bodies}}, wait: admission.wait}
				first := true
				body := limit.Body{Max: limit.MaxBody, Take: p.grow}
				r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(bytes.NewReader(make([]byte, step)), readerFunc(func([]byte) (int, error) {
					if first {
						first = false
						round.Done()
						round.Wait()
					}
					return 0, io.EOF
				}), bytes.NewReader(make([]byte, limit.MaxBody-step))))
				if err := body.Read(r); err != nil {
					t.Errorf("body %d: %v", i, err)
				}
				for k := range p.bodies {
					p.bodies[k].Give()
				}
			})
		}
		all.Wait()
		for name, capacity := range map[string]*limit.BodyCapacity{"line": &line.bodies, "namespace": &tenant.bodies, "total": &admission.bodies} {
			if !isFree(t, capacity, limit.MaxBody) {
				t.Errorf("capacity of the %s is still held", name)
			}
		}
	})
}

// readerFunc is a reader that is a function.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
