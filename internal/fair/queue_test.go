package fair

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"notifier/internal/alloctest"
)

// namespaceOf returns the namespace of an item such as "team-a/1".
func namespaceOf(item string) string {
	namespace, _, _ := strings.Cut(item, "/")
	return namespace
}

func popAll(q *Queue[string]) (all []string) {
	for {
		if _, ok := q.Peek(); !ok {
			return all
		}
		all = append(all, q.Pop())
	}
}

// T6: fails when a namespace waits behind the whole backlog of another, or when the items of one namespace lose their order.
func TestT6NamespacesTakeTurns(t *testing.T) {
	q := NewQueue(namespaceOf)
	for i := range 100 {
		q.Push(fmt.Sprint("flood/", i))
	}
	q.Push("team-a/0")
	q.Push("team-a/1")
	if next, ok := q.Peek(); q.Len() != 102 || !ok || next != "flood/0" {
		t.Errorf("%d items, the next is %q", q.Len(), next)
	}
	got := popAll(q)
	if want := []string{"flood/0", "team-a/0", "flood/1", "team-a/1", "flood/2"}; len(got) != 102 || !slices.Equal(got[:5], want) {
		t.Errorf("%d items: %v", len(got), got[:min(len(got), 5)])
	}
	if len(q.backlogs) != 0 || q.Len() != 0 {
		t.Errorf("%d namespaces are remembered that have nothing", len(q.backlogs))
	}
}

// Fails when an item of a held namespace is popped, when other namespaces wait for it, or when the namespace is forgotten.
func TestANamespaceThatIsHeldWaitsAlone(t *testing.T) {
	q := NewQueue(namespaceOf)
	for _, item := range []string{"a/0", "b/0", "a/1", "b/1"} {
		q.Push(item)
	}
	first := q.Pop()
	q.Hold("a")
	q.Hold("idle")
	q.Push("a/2")
	if got := append([]string{first}, popAll(q)...); !slices.Equal(got, []string{"a/0", "b/0", "b/1"}) || q.Len() != 2 {
		t.Errorf("went %v, %d wait", got, q.Len())
	}
	q.Push("b/2")
	q.Release("a")
	q.Release("idle")
	q.Release("unknown")
	if got := popAll(q); !slices.Equal(got, []string{"b/2", "a/1", "a/2"}) || len(q.backlogs) != 0 {
		t.Errorf("went %v after the release, %d namespaces are remembered", got, len(q.backlogs))
	}
	q.Hold("a")
	q.Push("a/3")
	q.Push("b/3")
	q.Release("a")
	if got := popAll(q); !slices.Equal(got, []string{"b/3", "a/3"}) {
		t.Errorf("went %v, want the released namespace after those that waited", got)
	}
}

// Fails when Pop of an empty queue returns an item.
func TestPopOfNothingPanics(t *testing.T) {
	q := NewQueue(namespaceOf)
	q.Push("a/0")
	q.Hold("a")
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	q.Pop()
}

// Fails when a queue keeps the room of the backlogs that it once had, of all objects of a cluster at a start.
func TestAnEmptyQueueKeepsNoRoom(t *testing.T) {
	q := NewQueue(namespaceOf)
	before := alloctest.InUse()
	for i := range 50_000 {
		q.Push(fmt.Sprint("team-", i, "/x"))
	}
	full := alloctest.InUse()
	popAll(q)
	if left := alloctest.InUse() - before; left > (full-before)/10 {
		t.Errorf("%d bytes are left of %d", left, full-before)
	}
	q.Push("team-a/1")
	if got := popAll(q); !slices.Equal(got, []string{"team-a/1"}) {
		t.Errorf("afterwards: %v", got)
	}
}
