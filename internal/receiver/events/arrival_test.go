package events

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/receivertest"
)

// T6: fails when an address may have any number of the greatest bodies parsed, each of which takes as long as a thousand events.
func TestT6LargeBodiesUseUpTheBudgetOfTheirAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newEvents(t, &eventLog{}, nil)
		parsed := func(size int) (n int) {
			body := "{" + strings.Repeat(" ", size)
			for n < 200 && do(h, post(body)).StatusCode == 400 {
				n++
			}
			return n
		}
		if n := parsed(limit.MaxBody - 1); n < 1 || n > 3 {
			t.Errorf("%d of the greatest bodies are parsed at once", n)
		}
		other := post(posted(nil))
		other.RemoteAddr = "198.51.100.7:1"
		if got := do(h, other).StatusCode; got != 202 {
			t.Errorf("another address: %d", got)
		}
		receivertest.Elapse(time.Minute)
		if n := parsed(40 << 10); n < 150 {
			t.Errorf("%d bodies of the greatest size of Flux's events are parsed at once", n)
		}
		h = newEvents(t, &eventLog{}, func(o *Options) { o.Address = limit.Budget{Rate: 1, Burst: 2} })
		if n := parsed(limit.MaxBody - 1); n != 1 {
			t.Errorf("%d of the greatest bodies are parsed within a budget of two events", n)
		}
	})
}

// slowBody is a body that takes seconds to arrive.
type slowBody struct{ io.Reader }

func (b slowBody) Read(p []byte) (int, error) {
	receivertest.Elapse(time.Second)
	return b.Reader.Read(p)
}

// Fails when the time of a POST is that of its first byte: budgets that are asked with a time before their last one fill up once more, and
// an event that was under way for seconds counts as older than what came meanwhile.
func TestAnEventIsAcceptedWhenItHasArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &eventLog{}
		r := post(posted(nil))
		r.Body = io.NopCloser(slowBody{r.Body})
		if got := do(newEvents(t, bus, nil), r).StatusCode; got != 202 {
			t.Fatalf("answered %d", got)
		}
		if at := bus.records[0].Accepted; !at.Equal(time.Now()) {
			t.Errorf("accepted %s before it had arrived", time.Since(at))
		}
	})
}
