package fair

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// FuzzT6AQueueIsItsModel compares a Queue with lists of items, for any order of calls. Fails when a namespace gets two turns, when a held
// one goes, when items of a namespace change places, or when one without items is remembered.
func FuzzT6AQueueIsItsModel(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		draw, q, n := rand.New(rand.NewPCG(seed, 1)), NewQueue(namespaceOf), 0
		items, held, ordered := map[string][]string{}, map[string]bool{}, []string(nil)
		enter := func(namespace string) {
			if len(items[namespace]) > 0 && !held[namespace] && !slices.Contains(ordered, namespace) {
				ordered = append(ordered, namespace)
			}
		}
		for step := range 500 {
			namespace := fmt.Sprint("team-", draw.IntN(4))
			switch draw.IntN(6) {
			case 0, 1:
				item := fmt.Sprint(namespace, "/", step)
				q.Push(item)
				items[namespace], n = append(items[namespace], item), n+1
				enter(namespace)
			case 2:
				q.Hold(namespace)
				held[namespace] = true
			case 3:
				q.Release(namespace)
				delete(held, namespace)
				enter(namespace)
			default:
				next, ok := q.Peek()
				// A namespace that is held when its turn comes loses it.
				for len(ordered) > 0 && held[ordered[0]] {
					ordered = ordered[1:]
				}
				if want := len(ordered) > 0; ok != want || ok && next != items[ordered[0]][0] {
					t.Fatalf("step %d: %q goes next, %v, the turns are %v of %v", step, next, ok, ordered, items)
				}
				if !ok {
					continue
				}
				if popped := q.Pop(); popped != next {
					t.Fatalf("step %d: %q went, want %q", step, popped, next)
				}
				whose := ordered[0]
				items[whose], ordered, n = items[whose][1:], ordered[1:], n-1
				enter(whose)
			}
			known := 0
			for i := range 4 {
				if namespace := fmt.Sprint("team-", i); len(items[namespace]) > 0 || held[namespace] {
					known++
				}
			}
			if q.Len() != n || len(q.backlogs) != known {
				t.Fatalf("step %d: %d items of %d namespaces, want %d of %d", step, q.Len(), len(q.backlogs), n, known)
			}
		}
	})
}

// FuzzT6CapacitiesAreTheirModel compares Capacities with sums over their uses, for any order of calls that need not wait. Fails when a use
// of the reserve counts at the level around it, when a refused use keeps a part, or when a key is remembered that uses nothing.
func FuzzT6CapacitiesAreTheirModel(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	type use struct {
		KeyUse[int]
		key         int
		n, reserved int64
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		draw := rand.New(rand.NewPCG(seed, 1))
		total, size, reserve := 10+draw.Int64N(30), 5+draw.Int64N(20), draw.Int64N(8)
		outer := NewCapacity(total)
		c, uses := NewCapacities[int](outer, size, reserve), []*use(nil)
		// free returns the free capacity of a key, of its reserve, and of all.
		free := func(key int) (own, kept, all int64) {
			own, kept, all = size, reserve, total
			for _, u := range uses {
				if u.key == key {
					own, kept = own-u.n, kept-u.reserved
				}
				all -= u.n - u.reserved
			}
			return own, kept, all
		}
		for step := range 300 {
			key, n := draw.IntN(4), 1+draw.Int64N(6)
			own, kept, all := free(key)
			switch draw.IntN(4) {
			case 0:
				if len(uses) > 0 {
					i := draw.IntN(len(uses))
					uses[i].Release()
					uses[i].Release()
					uses = slices.Delete(uses, i, i+1)
				}
			case 1:
				if len(uses) == 0 {
					continue
				}
				u := uses[draw.IntN(len(uses))]
				if own, kept, all = free(u.key); own < n || kept < n && all < n {
					continue // it would take what is extra
				}
				if err := u.Grow(t.Context(), n); err != nil {
					t.Fatal(err)
				}
				u.n += n
				if kept >= n {
					u.reserved += n
				}
			default:
				got, ok := c.TryAcquire(key, n)
				if want := own >= n && (kept >= n || all >= n); ok != want {
					t.Fatalf("step %d: %d of %d, %d kept and %d of all are free: %v", step, n, own, kept, all, ok)
				}
				if ok {
					u := &use{KeyUse: got, key: key, n: n}
					if kept >= n {
						u.reserved = n
					}
					uses = append(uses, u)
				}
			}
			keys := map[int]bool{}
			for _, u := range uses {
				keys[u.key] = true
			}
			if c.Len() != len(keys) {
				t.Fatalf("step %d: %d keys are remembered, want %d", step, c.Len(), len(keys))
			}
		}
		for _, u := range uses {
			u.Release()
		}
		if !outer.Idle() || c.Len() > 0 {
			t.Errorf("something stays in use, of %d keys", c.Len())
		}
		for _, k := range c.spare {
			if k.users != 0 || !k.Idle() || k.reserve != nil && !wasFree(k.reserve, reserve) {
				t.Error("a capacity that is kept for the next key is in use")
			}
		}
	})
}

// weighed is an item of a Heap.
type weighed struct{ weight, index int }

func (w *weighed) Before(other *weighed) bool { return w.weight < other.weight }
func (w *weighed) Index() *int                { return &w.index }

// FuzzAHeapKnowsItsItems compares a Heap with a set, while items come, change and leave. Fails when Swap, Push or Pop notes a wrong index.
func FuzzAHeapKnowsItsItems(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		draw, h, all := rand.New(rand.NewPCG(seed, 1)), Heap[*weighed]{}, []*weighed(nil)
		for range 300 {
			switch n := draw.IntN(5); {
			case n < 2 || len(all) == 0:
				w := &weighed{draw.IntN(20), NotInHeap}
				all = append(all, w)
				heap.Push(&h, w)
			case n < 4:
				w := all[draw.IntN(len(all))]
				w.weight = draw.IntN(20)
				heap.Fix(&h, w.index)
			default:
				i := draw.IntN(len(all))
				w := all[i]
				heap.Remove(&h, w.index)
				all = slices.Delete(all, i, i+1)
				if w.index != NotInHeap {
					t.Fatalf("removed, and at %d", w.index)
				}
			}
			if len(h) != len(all) {
				t.Fatalf("%d items, want %d", len(h), len(all))
			}
			for _, w := range all {
				if h[w.index] != w || w.weight < h[0].weight {
					t.Fatalf("%+v is at another place, or before the first", w)
				}
			}
		}
	})
}
