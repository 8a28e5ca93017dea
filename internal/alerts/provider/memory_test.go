package provider

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"notifier/internal/event"
)

// T6: one event of each of very many objects is for all Providers of a namespace. Fails when each Sender remembers as many objects as one may,
// however many Senders there are; when another namespace's Sender remembers none; or when the places of Senders that are gone stay taken.
func TestT6WhatTheSendersOfANamespaceRememberIsBounded(t *testing.T) {
	const senders = 100
	fill := func(r *Recoveries, namespace string) int {
		for i := range maxRecoveries {
			n := failureOf(fmt.Sprint(strings.Repeat("u", 240), i))
			n.Event.InvolvedObject.Namespace = namespace
			if err := r.Send(n, func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			n.Event.Severity, n.AlertUID = event.SeverityInfo, "alert"
			if err := r.Send(n, func() error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		return r.objects.Len()
	}
	before := heap()
	of := make([]Recoveries, senders)
	all := 0
	for i := range of {
		all += fill(&of[i], "flooder")
	}
	t.Logf("%d objects, %d MiB", all, (heap()-before)>>20)
	if most := memoryPart * (memoryParts + senders); all > most || all < memoryPart*memoryParts {
		t.Errorf("%d Senders of one namespace remember %d objects, want %d at most", senders, all, most)
	}
	var other Recoveries
	if n := fill(&other, "modest"); n != maxRecoveries {
		t.Errorf("another namespace's Sender remembers %d objects, want %d", n, maxRecoveries)
	}
	runtime.KeepAlive(of)
	of = nil
	free := false
	for range 1000 {
		use, acquired := memories.TryAcquire("flooder", memoryParts)
		if free = acquired; free {
			use.Release()
			break
		}
		runtime.GC() // the places are released a moment later
	}
	if !free {
		t.Error("the places of Senders that are gone stay taken")
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
