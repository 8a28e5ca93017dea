package watch

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// FuzzWhatIsKeptOfObjectsIsOfPresentOnes plays objects that change, are deleted, and are made again with other UIDs, and their definition with
// them. POSTs tell their states or others, and are about former objects as well. Watches expire, the bus fails, and workers follow one another.
// At each step the counts are those of the objects and POSTs. In the end, when all objects are deleted, none is kept, nor recorded.
func FuzzWhatIsKeptOfObjectsIsOfPresentOnes(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { playMany(t, seed) })
	})
}

// many are objects of one kind, as they come and go.
type many struct {
	*world
	rng *rand.Rand
	// objects are those that are present, made counts all, and the POSTs.
	objects map[string]kustomization
	made    int
	defined bool
	mu      sync.Mutex
	expired chan struct{}
}

// expire ends all watches.
func (o *many) expire() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.expired)
	o.expired = make(chan struct{})
}

func (o *many) upTo(d time.Duration) time.Duration { return time.Duration(o.rng.Int64N(int64(d))) }

// change changes or makes an object, or deletes it.
func (o *many) change(name string) {
	k, exists := o.objects[name]
	if !o.defined || exists && o.rng.IntN(6) == 0 {
		o.delete(name)
		return
	}
	if !exists {
		o.made++
		k = kustomization{name: name, uid: fmt.Sprint("uid-", o.made)}
	}
	k.revision, k.failed, k.unknown = fmt.Sprint("r", o.rng.IntN(3)), o.rng.IntN(3) == 0, o.rng.IntN(4) == 0
	k.message = fmt.Sprint("message ", o.rng.IntN(2))
	o.objects[name] = k
	o.put(k)
	if o.rng.IntN(20) == 0 {
		o.delete(name)
		o.change(name)
	}
}

func (o *many) delete(name string) {
	if _, exists := o.objects[name]; exists {
		o.remove(name)
		delete(o.objects, name)
	}
}

func (o *many) deleteAll() {
	for _, name := range slices.Sorted(maps.Keys(o.objects)) {
		o.delete(name)
	}
}

// redefine deletes the definition, and its objects with it, or makes it again.
func (o *many) redefine() {
	switch {
	case !o.defined:
		o.define("Kustomization", "v1")
	case o.rng.IntN(3) == 0: // a new definition of the same name, with the objects
		o.define("Kustomization", "v1")
		return
	case o.rng.IntN(2) == 0:
		o.undefine("Kustomization")
		o.deleteAll()
	default:
		o.deleteAll()
		o.undefine("Kustomization")
	}
	o.defined = !o.defined
}

// post publishes a POST about an object, mostly of the state that it is in, or about a former one of its name.
func (o *many) post(name string) {
	k := o.objects[name]
	if o.rng.IntN(4) == 0 {
		k.uid = fmt.Sprint("uid-", 1+o.rng.IntN(o.made+1))
	}
	outcome := event.OutcomeSucceeded
	if k.failed {
		outcome = event.OutcomeFailed
	}
	if o.rng.IntN(3) == 0 {
		outcome = []event.Outcome{event.OutcomeSucceeded, event.OutcomeFailed, event.OutcomeNone}[o.rng.IntN(3)]
	}
	o.made++
	r := postRecord(outcome, k.uid, k.revision)
	r.ID, r.Event.InvolvedObject.Name, r.Event.Message = fmt.Sprint("post-", o.made), name, k.message
	_, _ = o.bus.PublishEvent(context.Background(), r) // a POST that is refused is sent again, as one more
}

func playMany(t *testing.T, seed uint64) {
	o := &many{world: newWorld(t), rng: rand.New(rand.NewPCG(seed, 4)), objects: map[string]kustomization{}, expired: make(chan struct{})}
	o.expiring = func() <-chan struct{} {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.expired
	}
	o.redefine()
	if seed%2 == 0 {
		o.change("app0")
		o.change("app1")
	}
	_, stop := o.replica(true)
	for range 150 {
		pass(o.upTo([]time.Duration{time.Second, 8 * time.Second, 40 * time.Second}[o.rng.IntN(3)]))
		name := fmt.Sprint("app", o.rng.IntN(4))
		switch o.rng.IntN(24) {
		case 0:
			stop()
			_, stop = o.replica(true)
		case 1:
			o.redefine()
		case 2, 3:
			failing := o.rng.IntN(2) == 0
			o.bus.setFail(failing)
			o.state.setFail(failing)
		case 4, 5:
			o.expire()
			o.change(name)
		case 6, 7, 8, 9, 10:
			o.post(name)
		case 11:
			for range maxPostsPerObject {
				o.post(name)
			}
		case 12:
			o.deleteAll()
		case 13:
			o.bus.setRefusing(o.rng.IntN(2) == 0)
		case 14:
			o.bus.mu.Lock()
			o.bus.loseAnswers = o.rng.IntN(3)
			o.bus.mu.Unlock()
			o.state.loseAnswer()
		default:
			o.change(name)
		}
		synctest.Wait()
		o.leader.consistent(t)
	}
	o.bus.setFail(false)
	o.bus.setRefusing(false)
	o.state.setFail(false)
	pass(5 * time.Minute)
	o.leader.consistent(t)
	o.deleteAll()
	pass(5 * time.Minute)
	o.leader.consistent(t)
	o.nothingKept()
	stop()
}

// nothingKept fails the test unless all is gone that was kept of objects.
func (o *many) nothingKept() {
	o.t.Helper()
	lead := o.leader.leading.Load()
	if n := len(lead.subjects); n > 0 {
		o.t.Errorf("%d objects are kept, and there are none", n)
	}
	for key := range o.state.values {
		if !strings.HasPrefix(key, baselinePrefix) {
			o.t.Errorf("%s is recorded, and does not exist", key)
		}
	}
	if n := lead.queue.Len(); n > 0 {
		o.t.Errorf("%d objects are queued", n)
	}
}
