package subscribe

import (
	"fmt"
	"testing"

	"notifier/internal/event"
)

// Invariant T6. Fails when a namespace's triggers wait until all of another's are stored.
func TestT6TriggersOfABatchTakeTurnsByNamespace(t *testing.T) {
	triggers := map[triggerID]event.Trigger{}
	for namespace, count := range map[string]int{"flood": 10_000, "some": 100, "few": 2} {
		for i := range count {
			id := triggerID{namespace, "", fmt.Sprint("GitRepository/app-", i)}
			triggers[id] = event.Trigger{Namespace: id.namespace, Key: id.key}
		}
	}
	last, seen := map[string]int{}, map[triggerID]bool{}
	for i, trigger := range interleaved(triggers) {
		last[trigger.Namespace] = i
		seen[idOf(trigger)] = true
	}
	if len(seen) != len(triggers) {
		t.Errorf("%d of %d triggers have a turn", len(seen), len(triggers))
	}
	if last["few"] >= 2*3 || last["some"] >= 2*3+98*2 {
		t.Errorf("the last of 2 is at %d and the last of 100 at %d", last["few"], last["some"])
	}
}
