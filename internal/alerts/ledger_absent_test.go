package alerts

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"notifier/internal/alloctest"
	"notifier/internal/event"
)

// T6. An Alert that is edited before each event names another Provider each time, and none of them exists. The bus keeps a dead letter of each
// for a week, and every worker counts them. Fails when each has an account of its own in the ledger.
func TestT6TheDeadLettersOfMissingProvidersTakeLittleMemory(t *testing.T) {
	const many, most = 20_000, 640
	providers := map[event.ProviderKey]int{}
	for i := range many {
		providers[event.ProviderKey{Namespace: "team-a", Provider: fmt.Sprintf("missing-%d", i)}] = 1
	}
	counted := deadCounts{NewLedger(NewTable(), NewDestinations()), map[event.ProviderKey]*letterCount{}, map[event.ProviderKey]int{}}
	before := alloctest.InUse()
	counted.recount(providers)
	for key := range providers {
		counted.set(key, 1, map[string]int{"app": 1}) // as when it was read
	}
	if each := (alloctest.InUse() - before) / many; each > most {
		t.Errorf("the dead letter of a missing Provider takes %d bytes, want at most %d", each, most)
	}
	runtime.KeepAlive(providers)
	runtime.KeepAlive(counted)
}

// Fails when the counts of an object are lost while it does not exist, or are counted twice when it is made.
func TestTheCountsOfAnObjectOutlastIt(t *testing.T) {
	destinations := NewDestinations()
	l := NewLedger(NewTable(), destinations)
	l.setCounted(true)
	now := time.Now()
	check := func(when string, pending, dead int) {
		t.Helper()
		now = now.Add(pruneEvery)
		l.publish(now)
		if s := l.Get(kindProvider, "team-a", "chat"); !s.Counted || s.Pending != pending || s.Dead != dead {
			t.Errorf("%s: got %d waiting and %d dead letters, want %d and %d", when, s.Pending, s.Dead, pending, dead)
		}
	}
	key := objectName{kindProvider, "team-a", "chat"}
	l.count(key, 1, 2)
	check("before it is made", 1, 2)
	destinations.Put("team-a", "chat", &Destination{UID: "uid"})
	check("made", 1, 2)
	l.count(key, -1, 1)
	check("after a delivery", 0, 3)
	destinations.Delete("team-a", "chat")
	check("deleted", 0, 3)
	if len(l.accounts) > 0 {
		t.Errorf("it has %d accounts after its deletion", len(l.accounts))
	}
	destinations.Put("team-a", "chat", &Destination{UID: "uid-2"})
	l.count(key, 0, -2)
	check("made again", 0, 1)
	destinations.Delete("team-a", "chat")
	check("deleted again", 0, 1)
	l.count(key, 0, -1)
	check("without any", 0, 0)
	if len(l.accounts)+len(l.absent) > 0 {
		t.Errorf("it is kept without any: %d accounts, %d counts", len(l.accounts), len(l.absent))
	}
}
