package watch

import (
	"testing"
	"time"
)

// E6: fails when the changes of an object are overlooked because the cluster's store was restored from a backup, whose versions are older than
// those that the watchers have seen.
func TestE6ChangesAfterARestoreOfTheClusterArePublished(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		backup := w.version
		for range 10 {
			w.put(kustomization{})
		}
		pass(time.Minute)
		w.version = backup
		w.put(kustomization{failed: true})
		pass(time.Minute)
		w.wantTold("failed app r1")
	})
}
