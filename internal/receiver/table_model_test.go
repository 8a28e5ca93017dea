package receiver

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// FuzzT1EachPathServesTheSameReceiversAfterAnyChanges is T1 for Receivers of a few namespaces that are made, edited, suspended, made again
// and deleted, many on one path. Fails when which of them a path serves depends on anything but which there are, when one is served as it
// was before, when it is not told that it gained or lost its place, or when something of those that are gone is kept.
func FuzzT1EachPathServesTheSameReceiversAfterAnyChanges(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(playTable)
}

// claimant is a Receiver that there is.
type claimant struct {
	key, uid  string
	paths     []string // its own first
	created   int64
	suspended bool
	full      bool // what it was told of its first path
}

func (c *claimant) namespace() string {
	namespace, _, _ := strings.Cut(c.key, "/")
	return namespace
}

// claimants are those that there are, by key, and the table that should serve them.
type claimants struct {
	t     *testing.T
	rng   *rand.Rand
	table *Table
	all   map[string]*claimant
	paths []string
	moved []string
}

func playTable(t *testing.T, seed uint64) {
	cs := &claimants{t: t, rng: rand.New(rand.NewPCG(seed, 0)), all: map[string]*claimant{}}
	for _, name := range []string{"a", "b", "c"} {
		cs.paths = append(cs.paths, Path(token, name, "team"))
	}
	var err error
	if cs.table, err = NewTable(unlimited(), func(key string) { cs.moved = append(cs.moved, key) }); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() { cs.read(stop) })
	for range 200 {
		cs.moved = nil
		cs.change(fmt.Sprintf("team-%d/r%d", cs.rng.IntN(3), cs.rng.IntN(8)))
		for _, path := range cs.paths {
			cs.check(path)
		}
	}
	close(stop)
	reading.Wait()
	for key := range cs.all {
		cs.table.Delete(key)
	}
	cs.table.expire(time.Now())
	if n := len(cs.table.owners) + len(cs.table.tenants); n > 0 {
		t.Errorf("%d are left", n)
	}
	for _, path := range cs.paths {
		if s := cs.table.at(path); s != nil {
			t.Errorf("on %s are left %+v", path, s)
		}
	}
}

// read looks all paths up until stop is closed.
func (cs *claimants) read(stop <-chan struct{}) {
	for {
		for _, path := range cs.paths {
			select {
			case <-stop:
				return
			default:
			}
			s, _ := cs.table.lookup(path)
			for i := 0; s != nil && i < len(s.routes); i++ {
				if r := s.routes[i]; r.hook.Path != path || r.path.path != path || r.hook.Namespace+"/"+r.hook.Name != r.owner.key {
					cs.t.Errorf("the path of %s serves %s", r.hook.Path, r.owner.key)
				}
			}
		}
	}
}

// change makes one change to a Receiver.
func (cs *claimants) change(key string) {
	c := cs.all[key]
	switch n := cs.rng.IntN(10); {
	case n < 3:
		cs.table.Delete(key)
		delete(cs.all, key)
	case n < 4:
		cs.table.Suspend(key)
		if c != nil {
			c.suspended = true
		}
	default:
		if c == nil || n == 4 {
			c = &claimant{key: key, uid: fmt.Sprint(cs.rng.Uint64()), created: cs.rng.Int64N(5)}
			cs.all[key] = c
		}
		c.suspended, c.paths = n == 5, nil
		for _, i := range cs.rng.Perm(len(cs.paths))[:1+cs.rng.IntN(2)] {
			c.paths = append(c.paths, cs.paths[i])
		}
		var hooks []*Hook
		for _, path := range c.paths {
			hooks = append(hooks, newHook(cs.t, key, onPath(path), created(c.created), func(h *Hook) { h.UID, h.Suspended = c.uid, c.suspended }))
		}
		err := cs.table.Put(key, hooks...)
		if c.full = err != nil; c.full && !errors.Is(err, ErrPathFull) {
			cs.t.Error(err)
		}
	}
}

// ranked returns the keys of those that claim a path, in the order in which they are served.
func (cs *claimants) ranked(path string) (keys []string) {
	var on []*claimant
	for _, c := range cs.all {
		if slices.Contains(c.paths, path) {
			on = append(on, c)
		}
	}
	slices.SortFunc(on, func(a, b *claimant) int {
		return cmp.Or(cmp.Compare(a.created, b.created), strings.Compare(a.key, b.key))
	})
	for seen := map[string]bool{}; len(keys) < len(on); clear(seen) { // one of each namespace, and so on
		for _, c := range on {
			if !seen[c.namespace()] && !slices.Contains(keys, c.key) {
				keys, seen[c.namespace()] = append(keys, c.key), true
			}
		}
	}
	return keys
}

// check checks what a path serves.
func (cs *claimants) check(path string) {
	want := cs.ranked(path)
	served, over := want[:min(len(want), maxOnPath)], want[min(len(want), maxOnPath):]
	if got := servedOn(cs.table, path); !slices.Equal(served, got) {
		cs.t.Fatalf("served (-want +got):\n%s", gocmp.Diff(served, got))
	}
	s, _ := cs.table.lookup(path)
	for i := range served {
		r, c := s.routes[i], cs.all[served[i]]
		if (r.hook.Suspended || r.suspended.Load()) != c.suspended || r.hook.UID != c.uid || r.owner.stats.UID != c.uid {
			cs.t.Errorf("%s is served as it was", c.key)
		}
	}
	for key, c := range cs.all {
		is := slices.Contains(over, key)
		if c.paths[0] != path || is == c.full {
			continue
		}
		if c.full = is; !slices.Contains(cs.moved, key) {
			cs.t.Errorf("%s has no place: %t, and was not told", key, is)
		}
	}
}
