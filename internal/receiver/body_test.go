package receiver

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/receiver/limit"
)

// Fails when bodies that arrive at once wait for capacity that they keep from each other.
func TestBodiesThatArriveTogetherAreAllTakenThoughTheRoomHasOne(t *testing.T) {
	const senders, step = 16, 64 << 10
	synctest.Test(t, func(t *testing.T) {
		limits := Limits{
			Requests: Caps{Path: senders, Namespace: senders, Total: senders},
			Bodies:   Caps{Path: limit.MaxBody, Namespace: limit.MaxBody, Total: limit.MaxBody},
		}
		total := newCapacity(limits)
		namespace := total.ofNamespace(limits)
		path := namespace.ofPath(limits)
		var round, all sync.WaitGroup // round ends when each has taken its first step
		round.Add(senders)
		for i := range senders {
			all.Go(func() {
				place, ok := path.enter(t.Context(), DefaultLimits().Wait)
				if !ok {
					t.Error("no place")
				}
				defer place.Release()
				kept := limit.Body{Max: limit.MaxBody, Use: path.bodies.Use(), Wait: DefaultLimits().Wait}
				defer kept.Use.Release()
				first := true
				r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(bytes.NewReader(make([]byte, step)), readerFunc(func([]byte) (int, error) {
					if first {
						first = false
						round.Done()
						round.Wait()
					}
					return 0, io.EOF
				}), bytes.NewReader(make([]byte, limit.MaxBody-step))))
				if err := kept.Read(r); err != nil {
					t.Errorf("body %d: %v", i, err)
				}
			})
		}
		all.Wait()
		for name, c := range map[string]capacity{"path": path, "namespace": namespace, "total": total} {
			if !c.requests.Idle() || !c.bodies.Idle() {
				t.Errorf("capacity of the %s is still held", name)
			}
		}
	})
}

// readerFunc is a function as a reader.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// deadlines is a response writer that counts the deadlines of its connection's reads.
type deadlines struct {
	*httptest.ResponseRecorder
	set int
}

func (d *deadlines) SetReadDeadline(time.Time) error { d.set++; return nil }

// Fails when the rest of a refused body may take as long as its sender likes, on a path of one Receiver or of several. Fails also when a
// webhook whose body was read costs a deadline.
func TestOnlyABodyThatWasNotReadIsAbandoned(t *testing.T) {
	alone, first, second := newHook(t, "team-a/alone"), newHook(t, "payments/main"), newHook(t, "ments/mainpay")
	w := newWebhooks(t, newTable(t, unlimited(), alone, first, second), &recorder{})
	for _, path := range []string{alone.Path, first.Path} {
		unsigned := push(path, token, "{}")
		unsigned.Header.Del("X-Hub-Signature-256")
		for want, r := range []*http.Request{push(path, token, "{}"), unsigned} {
			d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			w.ServeHTTP(d, r)
			if d.set != want {
				t.Errorf("answered %d: %d deadlines, want %d", d.Code, d.set, want)
			}
		}
	}
}
