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
)

// isFree takes the room, all of which is so many bytes, and reports whether nobody holds any.
func isFree(t *testing.T, r *bodyRoom, size int64) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	all, rest := bodyHold{room: r}, bodyHold{room: r}
	return all.takeNow(size) && rest.takeRest(ctx)
}

// Fails when bodies that arrive at once wait for room that they hold against each other.
func TestBodiesThatArriveTogetherAreAllTakenThoughTheRoomHasOne(t *testing.T) {
	const senders, step = 16, 64 << 10
	synctest.Test(t, func(t *testing.T) {
		gate := gate{newRoom(senders, MaxBody), DefaultLimits().Wait}
		line, tenant := newRoom(senders, MaxBody), newRoom(senders, MaxBody)
		var round, all sync.WaitGroup // round ends when each has taken its first step
		round.Add(senders)
		for i := range senders {
			all.Go(func() {
				p := pass{bodies: [3]bodyHold{{room: &line.bodies}, {room: &tenant.bodies}, {room: &gate.bodies}}, wait: gate.wait}
				first := true
				body := holding{max: MaxBody, take: p.grow}
				r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(bytes.NewReader(make([]byte, step)), readerFunc(func([]byte) (int, error) {
					if first {
						first = false
						round.Done()
						round.Wait()
					}
					return 0, io.EOF
				}), bytes.NewReader(make([]byte, MaxBody-step))))
				if err := body.read(r); err != nil {
					t.Errorf("body %d: %v", i, err)
				}
				for k := range p.bodies {
					p.bodies[k].give()
				}
			})
		}
		all.Wait()
		for name, room := range map[string]*bodyRoom{"line": &line.bodies, "namespace": &tenant.bodies, "total": &gate.bodies} {
			if !isFree(t, room, MaxBody) {
				t.Errorf("room of the %s is still held", name)
			}
		}
	})
}

// readerFunc is a reader that is a function.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
