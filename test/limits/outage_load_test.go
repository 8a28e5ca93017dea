package limits

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/test/env"
)

const (
	// outageObjects are so many that every POST about one of them is believed, over the longest outage as well.
	outageObjects = 240
	// outagePosters share the objects, so that the events of each object are posted one after the other.
	outagePosters = 4
)

// outageLoad posts events about many objects, those of each object in the order of their numbers.
type outageLoad struct {
	*fixture
	every  time.Duration
	events []map[string]any

	mu     sync.Mutex
	posted []int // by object
}

// outageObject returns the name of an object.
func outageObject(i int) string { return fmt.Sprintf("app-%03d", i) }

// newOutageLoad makes the objects.
func (s *fixture) newOutageLoad(every time.Duration) *outageLoad {
	s.Helper()
	l := &outageLoad{fixture: s, every: every, events: make([]map[string]any, outageObjects), posted: make([]int, outageObjects)}
	group, ctx := errgroup.WithContext(s.Ctx)
	group.SetLimit(8)
	for i := range l.events {
		group.Go(func() (err error) {
			if err := s.Tenant.Object(ctx, "Kustomization", outageObject(i), nil, ""); err != nil {
				return err
			}
			l.events[i], err = s.Tenant.Event(ctx, "Kustomization", outageObject(i), "error", "BuildFailed", "", "")
			return err
		})
	}
	s.Must(group.Wait())
	return l
}

// run posts until stop is closed.
func (l *outageLoad) run(stop <-chan struct{}) error {
	var group errgroup.Group
	for first := range outagePosters {
		group.Go(func() error {
			tick := time.NewTicker(outagePosters * l.every)
			defer tick.Stop()
			for i := first; ; i = (i + outagePosters) % outageObjects {
				select {
				case <-stop:
					return nil
				case <-tick.C:
				}
				if err := l.post(l.Ctx, i); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// post posts the next event of an object as its controller would: again until it is accepted. On a machine that stores it too late for the
// answer the next answer is 429, for a duplicate.
func (l *outageLoad) post(ctx context.Context, i int) error {
	l.mu.Lock()
	n := l.posted[i]
	l.mu.Unlock()
	event := maps.Clone(l.events[i])
	event["message"] = fmt.Sprint(outageObject(i), " ", n)
	event["metadata"] = map[string]string{"kustomize.toolkit.fluxcd.io/revision": fmt.Sprintf("main@sha1:%d", n)}
	event["timestamp"] = time.Now().UTC().Format(time.RFC3339)
	err := env.Eventually(ctx, func(ctx context.Context) error {
		resp, err := l.Post(ctx, event)
		if err == nil && resp.Status != http.StatusAccepted && resp.Status != http.StatusTooManyRequests {
			err = fmt.Errorf("POST of an event: %d %s", resp.Status, resp.Body)
		}
		return err
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.posted[i]++
	return nil
}

// count returns the number of posted events of each object so far.
func (l *outageLoad) count() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[string]int{}
	for i, n := range l.posted {
		counts[outageObject(i)] = n
	}
	return counts
}

// arrival is a message that a destination accepted.
type arrival struct {
	// id is the delivery's; object and n are the event's.
	id, object string
	n          int
	replayed   bool
}

// ledger is the record of the messages that a destination accepted, in order.
type ledger struct {
	sink  *env.Sink
	read  int // of the sink's requests
	taken []arrival
	// last is the highest number of each object's events that was accepted at the first attempt.
	last map[string]int
}

func newLedger(sink *env.Sink) *ledger { return &ledger{sink: sink, last: map[string]int{}} }

// update reads the requests since the last call.
func (l *ledger) update() error {
	received := l.sink.Received()
	for _, r := range received[l.read:] {
		if r.Status != http.StatusOK {
			continue
		}
		var m struct{ Message string }
		if err := json.Unmarshal(r.Body, &m); err != nil {
			return err
		}
		a := arrival{id: r.Header.Get("Idempotency-Key"), replayed: r.Header.Get("Replayed") == "true"}
		if _, err := fmt.Sscanf(m.Message, "%s %d", &a.object, &a.n); err != nil {
			return fmt.Errorf("message %q: %w", m.Message, err)
		}
		l.taken = append(l.taken, a)
		if last, known := l.last[a.object]; !a.replayed && (!known || a.n > last) {
			l.last[a.object] = a.n
		}
	}
	l.read = len(received)
	return nil
}

// came waits until an event of each object was accepted that is younger than the counted ones.
func (l *ledger) came(ctx context.Context, counted map[string]int) error {
	return env.Eventually(ctx, func(context.Context) error {
		if err := l.update(); err != nil {
			return err
		}
		for object, n := range counted {
			if last, known := l.last[object]; !known || last < n {
				return fmt.Errorf("of %s nothing came that is younger than %d", object, n)
			}
		}
		return nil
	})
}

// missing returns, for each object, the numbers of the events up to the last accepted one that were not accepted.
func (l *ledger) missing() map[string]map[int]bool {
	missing := map[string]map[int]bool{}
	for object, last := range l.last {
		missing[object] = map[int]bool{}
		for n := range last {
			missing[object][n] = true
		}
	}
	for _, a := range l.taken {
		delete(missing[a.object], a.n)
	}
	return missing
}

// faults counts the faults in a ledger: missing events, repeated events, and disordered events. An event is disordered
// if it follows a younger one of the same object, or is a replay after a younger replay. Events posted after the replay
// was requested must follow it.
type faults struct{ lost, twice, disordered int }

func (l *ledger) faults(posted, asked map[string]int) (f faults) {
	type place struct {
		object string
		n      int
	}
	times, first, again, late := map[place]int{}, map[string]int{}, map[string]int{}, map[string]bool{}
	for _, a := range l.taken {
		times[place{a.object, a.n}]++
		newest := first
		if a.replayed {
			newest = again
		}
		// Numbers are kept with 1 added, so that each is positive.
		if a.n+1 <= newest[a.object] || a.replayed && late[a.object] {
			f.disordered++
		}
		newest[a.object] = max(newest[a.object], a.n+1)
		late[a.object] = late[a.object] || !a.replayed && asked != nil && a.n >= asked[a.object]
	}
	for object, count := range posted {
		for n := range count {
			switch times[place{object, n}] {
			case 0:
				f.lost++
			case 1:
			default:
				f.twice++
			}
			delete(times, place{object, n})
		}
	}
	f.twice += len(times) // messages that no poster sent
	return f
}
