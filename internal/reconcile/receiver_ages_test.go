package reconcile

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
)

// T6: what is kept of a namespace's Receivers is bounded: one of 512 filtered resources takes a megabyte. Fails when the youngest is served in
// the place of an older one, when something of it is kept, or when a free place is not given to the next.
func TestT6OnlyTheOldestReceiversOfANamespaceAreServed(t *testing.T) {
	aged := func(name string, minutes int) func(*v1.Receiver) {
		return func(r *v1.Receiver) {
			r.Name, r.CreationTimestamp = name, metav1.NewTime(time.Date(2026, 1, 1, 0, minutes, 0, 0, time.UTC))
		}
	}
	other := newReceiver("other", aged("other", 9))
	other.Namespace = "team-b"
	s := settings{
		objects: []runtime.Object{
			newReceiver("c", aged("c", 1)), newEventReceiver("a", aged("a", 2)), newReceiver("b", aged("b", 2)),
			newEventReceiver("d", aged("d", 3)), other,
		},
		secrets: []*corev1.Secret{newSecret("hook", "token", "t")},
		change:  func(o *Options) { o.MaxReceiversPerNamespace = 2 },
	}
	play(t, s, func(w *world) {
		check := func(served, over string) {
			t.Helper()
			for name := range strings.FieldsSeq(served) {
				w.ready("Receiver", name, "True Succeeded")
				if _, live := w.Receivers().Live("team-a", name); !live {
					t.Errorf("%s is not live", name)
				}
			}
			for name := range strings.FieldsSeq(over) {
				if message := w.ready("Receiver", name, "False LimitExceeded"); !strings.Contains(message, "more than 2 Receivers") {
					t.Errorf("message: %s", message)
				}
				sub := w.subscriptions.get(name)
				if _, live := w.Receivers().Live("team-a", name); live || w.hooks.get("team-a/"+name) != nil || sub != nil && !sub.Suspended {
					t.Errorf("%s is served", name)
				}
			}
		}
		check("a c", "b d")
		if _, live := w.Receivers().Live("team-b", "other"); !live {
			t.Error("another namespace's is not served")
		}
		w.remove("Receiver", "c")
		check("a b", "d")
		w.apply("Receiver", newReceiver("c", aged("c", 0)))
		check("a c", "b d")
		w.remove("Receiver", "a")
		w.remove("Receiver", "b")
		check("c d", "")
	})
}
