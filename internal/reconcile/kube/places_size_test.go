package kube

import "testing"

// T6: fails when a key keeps its place, so that more keys have one than may, when a key waits twice, or when a namespace
// without keys takes memory.
func TestT6APlaceIsGivenBackWhole(t *testing.T) {
	p := newPlaces[string](1)
	var added []string
	enter := func(k string, want bool) {
		t.Helper()
		if got := p.enter("team-a", k); got != want {
			t.Errorf("%s has a place: %v, want %v", k, got, want)
		}
	}
	leave := func() { p.leave("team-a", func(k string) { added = append(added, k) }) }
	for range 2 {
		enter("a", true)
		enter("b", false)
		enter("b", false)
		if n := p.waiting(); n != 1 {
			t.Errorf("%d keys wait, want 1", n)
		}
		leave()
		enter("b", true)
		enter("c", false)
		leave()
		enter("c", true)
		leave()
	}
	if len(added) != 4 || len(p.held) != 0 || len(p.namespaces) != 0 {
		t.Errorf("%q were added to the queue; %d keys and %d namespaces are left", added, len(p.held), len(p.namespaces))
	}
}
