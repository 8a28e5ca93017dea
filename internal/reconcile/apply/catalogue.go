package apply

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// catalogueRefresh is how often a catalogue may be fetched again because a kind was not found in it, or in more than one group.
	catalogueRefresh = 10 * time.Second
	// catalogueRetry is the pause after a fetch that failed.
	catalogueRetry = 2 * time.Second
	// catalogueAge is when a catalogue that serves is fetched anew beside its use.
	catalogueAge = 10 * time.Minute
	// fetchTime ends a fetch that the server does not answer.
	fetchTime = 5 * time.Second
	// fetchPatience is how long after its beginning a fetch is waited for. Who comes later does not wait at all, so that an API that
	// hangs costs each worker this long once in fetchTime.
	fetchPatience = 250 * time.Millisecond
	// maxKinds bounds the kinds of one catalogue; what the server lists beyond it is not found.
	maxKinds = 1 << 14
)

// errNotAnswered says that discovery has not answered yet. Its answer may be there the next time.
var errNotAnswered = errors.New("the API server has not said yet what it serves")

// kindsServed are the resources by which a kind is written, one for each API group that has it.
type kindsServed map[string][]schema.GroupVersionResource

// catalogue is what discovery last said of one version, or of all groups. Its lock is never held through a request.
type catalogue struct {
	fetch func(context.Context) (kindsServed, error)
	// namespace is whose trigger named the version first, and counts for nothing once it serves something.
	namespace string

	mu     sync.Mutex
	served kindsServed
	// err is why the last fetch failed, and at when it ended.
	err error
	at  time.Time
	// doubted says that served may be outdated.
	doubted bool
	// flight is the fetch under way, nil for none.
	flight *flight
}

type flight struct {
	began time.Time
	done  chan struct{} // closed when the fetch has ended
}

// find returns the resources of a kind, none when the server says that there are none. At most one fetch is under way at a time; it
// runs in a goroutine of flights and ends with ctx, or fetchTime after it began. A kind of which one resource is known does without
// its answer, because one tenant's doubt must not fail the others' writes. One that serves nothing, as far as is known, is fetched at the
// asker's pace: until then its last answer counts.
func (c *catalogue) find(ctx context.Context, kind string, by asker, flights *sync.WaitGroup) ([]schema.GroupVersionResource, error) {
	c.mu.Lock()
	good := len(c.served[kind]) == 1 && !c.doubted
	if !c.due(good) {
		defer c.mu.Unlock()
		return c.answer(kind)
	}
	f := c.flight
	if f == nil && len(c.served) == 0 && !by.allowed() {
		defer c.mu.Unlock()
		if c.at.IsZero() {
			return nil, errNotAnswered
		}
		return c.answer(kind)
	}
	if f == nil {
		f = &flight{began: time.Now(), done: make(chan struct{})}
		c.flight = f
		flights.Go(func() { c.fly(ctx, f) })
	}
	if good { // only old: the next one who asks has the new answer
		defer c.mu.Unlock()
		return c.answer(kind)
	}
	c.mu.Unlock()
	if left := fetchPatience - time.Since(f.began); left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-f.done:
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flight == f && len(c.served[kind]) != 1 {
		return nil, errNotAnswered
	}
	return c.answer(kind)
}

// due reports whether the catalogue is to be fetched for a kind: good says that its answer for that is good. The caller holds the lock.
func (c *catalogue) due(good bool) bool {
	pause := catalogueRefresh
	switch {
	case good:
		pause = catalogueAge
	case c.err != nil:
		pause = catalogueRetry
	}
	return c.at.IsZero() || time.Since(c.at) >= pause
}

// answer is what is known of a kind. What was found once counts while the server does not answer. The caller holds the lock.
func (c *catalogue) answer(kind string) ([]schema.GroupVersionResource, error) {
	if found := c.served[kind]; len(found) > 0 {
		return found, nil
	}
	return nil, c.err
}

func (c *catalogue) fly(ctx context.Context, f *flight) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	served, err := c.fetch(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err = err; err == nil {
		c.served, c.doubted = served, false
	}
	c.at, c.flight = time.Now(), nil
	close(f.done)
}

// doubt has the catalogue fetched again when it is next asked, though no more often than catalogueRefresh.
func (c *catalogue) doubt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubted = true
}

// empty reports whether nothing is known to be served.
func (c *catalogue) empty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.served) == 0
}
