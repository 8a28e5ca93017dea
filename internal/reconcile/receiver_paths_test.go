package reconcile

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
)

// A sender that is told that a path is unknown might give it up. Fails when the paths of a Receiver with a bad spec are unknown after a restart,
// when they are not those of its present tokens, or when they are still awaited once it is deleted.
func TestThePathsOfABadSpecAreAwaited(t *testing.T) {
	r := newReceiver("app", func(r *v1.Receiver) { r.Spec.ResourceFilter = "req." })
	play(t, settings{objects: []runtime.Object{r}, secrets: []*corev1.Secret{newSecret("hook", "token", "t1")}}, func(w *world) {
		awaited := func(want ...string) {
			t.Helper()
			w.ready("Receiver", "app", "False InvalidCELExpression")
			if got := w.hooks.awaited["team-a/app"]; !slices.Equal(got, want) {
				t.Errorf("awaited at %q, want %q", got, want)
			}
			if got := w.live("Receiver", "app").(*v1.Receiver).Status.WebhookPath; got != want[0] {
				t.Errorf("status shows %q", got)
			}
		}
		awaited(path("t1", "app"))
		w.applySecret(newSecret("hook", "token", "t2", "tokenPrevious", "t1"))
		awaited(path("t2", "app"), path("t1", "app"))
		w.remove("Receiver", "app")
		if got := w.hooks.awaited["team-a/app"]; got != nil {
			t.Errorf("the deleted Receiver is awaited at %q", got)
		}
	})
}

func TestATakenPathIsReportedAndTakenOverLater(t *testing.T) {
	s := settings{objects: []runtime.Object{newReceiver("app")}, secrets: []*corev1.Secret{newSecret("hook", "token", "t")}}
	s.prepare = func(w *world) { w.hooks.taken["team-a/app"] = true }
	play(t, s, func(w *world) {
		w.ready("Receiver", "app", "False PathConflict")
		if got := w.live("Receiver", "app").(*v1.Receiver).Status.WebhookPath; got != "" {
			t.Errorf("a path is shown: %s", got)
		}
		w.hooks.mu.Lock()
		delete(w.hooks.taken, "team-a/app")
		w.hooks.mu.Unlock()
		w.Moved("team-a/app")
		w.settle()
		w.ready("Receiver", "app", "True Succeeded")
	})
}
