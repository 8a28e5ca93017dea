package apply

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/internal/event"
)

// ownersCluster has the objects of the two namespaces, and answers requests for them.
type ownersCluster struct {
	mu    sync.Mutex
	rng   *rand.Rand
	well  bool
	slow  time.Duration
	off   bool // the kind is not watched
	gone  map[string]bool
	may   map[string]bool
	since map[string]time.Time // when an object was selected, by namespace, selector and name
	log   []ownersRequest
}

// ownersRequest is a request as it was answered.
type ownersRequest struct {
	patch
	namespace, account string
	stamped            time.Time
	decided, answered  time.Time
	code               int
}

func newOwnersCluster(seed uint64) *ownersCluster {
	return &ownersCluster{
		rng: rand.New(rand.NewPCG(seed, 2)), gone: map[string]bool{}, may: map[string]bool{}, since: map[string]time.Time{},
	}
}

func (c *ownersCluster) permit(account string, allowed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.may[account] = allowed
}

// change makes or deletes an object, changes its labels, or the pace of the API server.
func (c *ownersCluster) change(draws *rand.Rand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	namespace, object := ownersAny(draws, []string{"team", "flood"}), ownersAny(draws, ownersObjects)
	switch draws.IntN(4) {
	case 0:
		c.slow = []time.Duration{0, 100 * time.Millisecond, 2 * time.Second}[draws.IntN(3)]
	case 1:
		key := namespace + "/team=" + ownersAny(draws, []string{"a", "b"}) + "/" + object
		if c.since[key].IsZero() {
			c.since[key] = time.Now()
		} else {
			delete(c.since, key)
		}
	case 2:
		c.off = draws.IntN(2) == 0
	default:
		key := namespace + "/" + object
		c.gone[key] = !c.gone[key]
	}
}

func (c *ownersCluster) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.well, c.slow, c.off = true, 0, false
	clear(c.gone)
}

func (c *ownersCluster) answer(p patch) (int, http.Header) {
	c.mu.Lock()
	before, after := time.Duration(c.rng.Int64N(int64(c.slow+1))), time.Duration(c.rng.Int64N(int64(c.slow+1)))
	c.mu.Unlock()
	<-time.After(before)
	user := strings.Split(p.user, ":")
	stamp, _ := time.Parse(time.RFC3339Nano, p.stamp)
	r := ownersRequest{patch: p, namespace: user[2], account: user[3], stamped: stamp, decided: time.Now(), code: http.StatusOK}
	header := http.Header{}
	c.mu.Lock()
	switch {
	case !c.may[r.account]:
		r.code = http.StatusForbidden
	case c.gone[r.namespace+"/"+p.object()]:
		r.code = http.StatusNotFound
	case !c.well && c.rng.IntN(3) == 0:
		r.code = ownersAny(c.rng, []int{http.StatusConflict, http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusUnprocessableEntity})
		if c.rng.IntN(2) == 0 {
			header.Set("Retry-After", "3")
		}
	}
	c.mu.Unlock()
	<-time.After(after)
	r.answered = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, r)
	return r.code, header
}

// Select implements Selector.
func (c *ownersCluster) Select(namespace string, target event.Target) (names []string, watched bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, object := range ownersObjects {
		if !c.since[namespace+"/"+target.Selector()+"/"+object].IsZero() {
			names = append(names, object)
		}
	}
	return names, !c.off
}

func (c *ownersCluster) Pending(string) bool { return false }

func (c *ownersCluster) Selects(namespace string, target event.Target, name string) (selected, watched bool) {
	names, watched := c.Select(namespace, target)
	return watched && slices.Contains(names, name), watched
}

func (c *ownersCluster) selectedSince(namespace string, target event.Target, object string, accepted time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := c.since[namespace+"/"+target.Selector()+"/"+object]
	return !since.IsZero() && !since.After(accepted)
}

// met reports whether the webhook got a request for an object, or the object did not exist since.
func (c *ownersCluster) met(sent event.Trigger, object string, accounts map[string]bool) bool {
	return slices.ContainsFunc(c.log, func(r ownersRequest) bool {
		return r.namespace == sent.Namespace && r.object() == object && accounts[r.account] &&
			(r.code == http.StatusOK && !r.stamped.Before(sent.Accepted) || r.code == http.StatusNotFound && !r.decided.Before(sent.Accepted))
	})
}

// check checks the identity and the pace of all requests.
func (c *ownersCluster) check(t *testing.T) {
	last := map[string]time.Time{}
	slices.SortStableFunc(c.log, func(a, b ownersRequest) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	for _, r := range c.log {
		if !strings.Contains(r.path, "/namespaces/"+r.namespace+"/") {
			t.Errorf("%s writes %s", r.user, r.path)
		}
		if before := last[r.path]; r.at.Sub(before) < time.Second {
			t.Errorf("a request for %s comes %s after the answer to the one before", r.path, r.at.Sub(before))
		}
		last[r.path] = r.answered
	}
}
