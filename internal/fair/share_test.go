package fair

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// near reports whether two times differ by at most the rounding of a share.
func near(a, b time.Duration) bool { return max(a-b, b-a) <= 10*time.Microsecond }

// Fails when one namespace's use counts for another, or when use expires at another pace than the window's.
func TestT6ANamespaceUsesUpItsOwnShareAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShare(ShareOptions{Window: 4 * time.Second, Namespace: time.Second})
		if left := s.Left("a"); !near(left, time.Second) {
			t.Errorf("%v at first", left)
		}
		s.Spend("a", 1500*time.Millisecond)
		if left, wait := s.Left("a"), s.Wait("a"); !near(left, -500*time.Millisecond) || !near(wait, 2*time.Second) {
			t.Errorf("%v left, to be waited for %v", left, wait)
		}
		if left, wait := s.Left("b"), s.Wait("b"); !near(left, time.Second) || wait != 0 {
			t.Errorf("another namespace: %v left, to be waited for %v", left, wait)
		}
		pass(s.Wait("a"))
		if left := s.Left("a"); left <= 0 || !near(left, 0) {
			t.Errorf("%v left after the wait", left)
		}
		pass(time.Minute)
		if left := s.Left("a"); !near(left, time.Second) {
			t.Errorf("%v after a minute", left)
		}
	})
}

// Fails when a namespace gets more than its share over time by working whenever any of it is left.
func TestT6OverTimeANamespaceUsesNoMoreThanItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const piece, passes = 100 * time.Millisecond, 5 * time.Minute
		s := NewShare(ShareOptions{Window: 4 * time.Second, Namespace: time.Second})
		var used time.Duration
		for began := time.Now(); time.Since(began) < passes; pass(s.Wait("flood")) {
			pass(piece)
			s.Spend("flood", piece)
			used += piece
		}
		if want := passes/4 + time.Second; used > want+piece || used < want-2*time.Second {
			t.Errorf("used %v, want about %v", used, want)
		}
	})
}

// Fails when all namespaces together use more than the total, or when namespaces that need little are stopped by the others.
func TestT6TheReserveIsThereWhenTheTotalIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShare(ShareOptions{
			Window: 10 * time.Second, Namespace: 2 * time.Second, Total: 5 * time.Second, Reserve: 50 * time.Millisecond,
		})
		for _, flood := range []string{"a", "b", "c"} {
			s.Spend(flood, 1800*time.Millisecond)
		}
		for _, flood := range []string{"a", "b", "c"} {
			if left := s.Left(flood); left > 0 || !s.Heavy(flood) {
				t.Errorf("%s has %v left, heavy %v", flood, left, s.Heavy(flood))
			}
		}
		if wait := s.Wait("a"); !near(wait, 800*time.Millisecond) { // until the total is available again
			t.Errorf("to be waited for %v", wait)
		}
		if left := s.Left("quiet"); !near(left, 50*time.Millisecond) || s.Heavy("quiet") || s.Wait("quiet") != 0 {
			t.Errorf("a namespace that used nothing has %v left", left)
		}
		s.Spend("quiet", 60*time.Millisecond)
		if left, wait := s.Left("quiet"), s.Wait("quiet"); left > 0 || !near(wait, 50*time.Millisecond) {
			t.Errorf("beyond the reserve %v are left, to be waited for %v", left, wait)
		}
	})
}

// Fails when a pause of the machine during a piece of work costs its namespace more than a window.
func TestAPieceOfWorkCountsForAWindowAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShare(ShareOptions{Window: 4 * time.Second, Namespace: time.Second})
		s.Spend("a", time.Hour)
		if wait := s.Wait("a"); !near(wait, 12*time.Second) {
			t.Errorf("to be waited for %v", wait)
		}
	})
}

// Fails when a query about an unused namespace is remembered: names from outside would then evict namespaces that used something.
func TestT6ToAskAShareLeavesNoTrace(t *testing.T) {
	s := NewShare(ShareOptions{Window: time.Hour, Namespace: time.Second, Total: time.Minute, Reserve: time.Millisecond})
	s.Spend("flood", 2*time.Second)
	for i := range 2 * maxSharing {
		name := fmt.Sprint("team-", i)
		if s.Left(name) != time.Second || s.Wait(name) != 0 || s.Heavy(name) {
			t.Fatalf("%s pays for another", name)
		}
	}
	if n := s.each.Len(); n != 1 || s.Left("flood") > 0 {
		t.Errorf("%d namespaces are remembered, the flood has %v left", n, s.Left("flood"))
	}
	for i := range 2 * maxSharing {
		s.Spend(fmt.Sprint("team-", i), time.Nanosecond)
	}
	if n := s.each.Len(); n != maxSharing {
		t.Errorf("%d namespaces are remembered", n)
	}
}

func TestAShareThatMakesNoSensePanics(t *testing.T) {
	for name, o := range map[string]ShareOptions{
		"no window":                        {Namespace: time.Second},
		"nothing for a namespace":          {Window: time.Second},
		"a negative total":                 {Window: time.Second, Namespace: time.Second, Total: -1},
		"a reserve beyond the namespace's": {Window: time.Second, Namespace: time.Second, Reserve: 2 * time.Second},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			NewShare(o)
		}()
	}
}
