package events

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"notifier/internal/event"
	"notifier/internal/receiver/limit"
)

// unending is a body that ends only with its context, after size bytes.
type unending struct {
	ctx  context.Context
	size int
}

func (u *unending) Read(p []byte) (int, error) {
	if u.size == 0 {
		<-u.ctx.Done()
		return 0, io.ErrUnexpectedEOF
	}
	n := min(len(p), u.size)
	u.size -= n
	return n, nil
}

func (u *unending) Close() error { return nil }

// T6: a Pod sends large bodies that do not end, and a controller a large event. Fails when all addresses share one capacity, or when an
// address has none of its own.
func TestT6LargeBodiesThatDoNotEndLeaveOtherAddressesTheirCapacity(t *testing.T) {
	for name, tc := range map[string]struct {
		floods, message int
	}{
		"one address leaves the others half": {1, limit.MaxBody / 2},
		"others leave an address its own":    {8, 39_000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newEvents(t, &eventLog{}, nil)
				ctx, stop := context.WithCancel(t.Context())
				var senders sync.WaitGroup
				for i := range tc.floods * 64 {
					r := post("").WithContext(ctx)
					r.Body, r.ContentLength = &unending{ctx, limit.MaxBody}, -1
					r.RemoteAddr = fmt.Sprintf("10.0.0.%d:1", i%tc.floods)
					senders.Go(func() { do(h, r) })
				}
				synctest.Wait()
				r := post(posted(func(e *event.Event) { e.Message = strings.Repeat("x", tc.message) }))
				r.RemoteAddr = "10.1.0.1:1"
				if resp := do(h, r); resp.StatusCode != http.StatusAccepted {
					t.Errorf("an event of another address: %d, want 202", resp.StatusCode)
				}
				stop()
				senders.Wait()
			})
		})
	}
}
