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

// isFree takes the room, all of which is so many bytes, and reports whether nobody holds any.
func isFree(t *testing.T, r *limit.BodyRoom, size int64) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	all, rest := limit.BodyHold{Room: r}, limit.BodyHold{Room: r}
	return all.TakeNow(size) && rest.TakeRest(ctx)
}

// Fails when bodies that arrive at once wait for room that they hold against each other.
func TestBodiesThatArriveTogetherAreAllTakenThoughTheRoomHasOne(t *testing.T) {
	const senders, step = 16, 64 << 10
	synctest.Test(t, func(t *testing.T) {
		gate := gate{newRoom(senders, limit.MaxBody), DefaultLimits().Wait}
		line, tenant := newRoom(senders, limit.MaxBody), newRoom(senders, limit.MaxBody)
		var round, all sync.WaitGroup // round ends when each has taken its first step
		round.Add(senders)
		for i := range senders {
			all.Go(func() {
				p := pass{bodies: [3]limit.BodyHold{{Room: &line.bodies}, {Room: &tenant.bodies}, {Room: &gate.bodies}}, wait: gate.wait}
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
		for name, room := range map[string]*limit.BodyRoom{"line": &line.bodies, "namespace": &tenant.bodies, "total": &gate.bodies} {
			if !isFree(t, room, limit.MaxBody) {
				t.Errorf("room of the %s is still held", name)
			}
		}
	})
}

// readerFunc is a reader that is a function.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
