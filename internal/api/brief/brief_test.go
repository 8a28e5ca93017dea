package brief

import (
	"testing"
	"testing/synctest"
	"time"
)

// Fails when an answer outlives its time, when a key is forgotten before a less recently used one, or when there is no bound.
func TestAnswersAreKeptForTheirTimeAndForABoundedNumberOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New[int, string](2)
		a.Put(1, "one", time.Now().Add(time.Second))
		a.Put(2, "two", time.Now().Add(2*time.Second))
		if v, ok := a.Get(1); !ok || v != "one" {
			t.Error("the first is not there")
		}
		<-time.After(time.Second)
		if _, ok := a.Get(1); ok || !a.Had(1) {
			t.Error("the first is there though its time is over, or not remembered")
		}
		a.Put(3, "three", time.Now().Add(time.Second))
		if _, ok := a.Get(2); ok || a.Had(2) {
			t.Error("a key that was used longest ago is kept beyond the bound")
		}
		a.Forget(1)
		if a.Had(1) {
			t.Error("what was forgotten is remembered")
		}
	})
}
