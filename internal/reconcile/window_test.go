package reconcile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "notifier/api/v1"
	"notifier/internal/alloctest"
	"notifier/internal/event/view"
)

// Fails when an object that is not ready is reported as ready, when the problem to correct is missing, or when a replica that writes no
// status does not know it. Fails when a Receiver's webhook path, which may be a credential, is shown.
func TestTheHealthOfANamespaceSaysWhatToMend(t *testing.T) {
	for _, follower := range []bool{false, true} {
		s := oneOfEach()
		s.follower = follower
		s.objects = append(s.objects,
			newReceiver("lost", func(r *v1.Receiver) { r.Spec.SecretRef.Name = "missing" }),
			newAlert("lonely", func(a *v1.Alert) { a.Spec.ProviderRef.Name = "none" }),
			newProvider("off", func(p *v1.Provider) { p.Spec.Suspend = true }),
			newAlert("quiet", func(a *v1.Alert) { a.Namespace, a.Spec.Suspend = "team-b", true }),
		)
		play(t, s, func(w *world) {
			<-w.Complete()
			w.settle()
			got := w.Health("team-a")
			for i := range got {
				if strings.Contains(got[i].Problem, "/hook/") {
					t.Errorf("%s: %s", got[i].Name, got[i].Problem)
				}
				got[i].Problem, _, _ = strings.Cut(got[i].Problem, ":")
			}
			want := []view.Health{
				{Kind: "Alert", Name: "alert", Ready: true},
				{Kind: "Alert", Name: "lonely", Problem: `Provider "none" does not exist`},
				{Kind: "Provider", Name: "chat", Ready: true},
				{Kind: "Provider", Name: "off", Problem: "spec.suspend is set"},
				{Kind: "Receiver", Name: "app", Ready: true},
				{Kind: "Receiver", Name: "lost", Problem: `Secret "missing", named by spec.secretRef, does not exist`},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("follower %t: %s", follower, diff)
			}
			if diff := cmp.Diff([]string{"team-a", "team-b"}, w.Namespaces()); diff != "" {
				t.Error(diff)
			}
			if got := w.Health("team-c"); len(got) != 0 {
				t.Errorf("a namespace without any: %v", got)
			}
		})
	}
}

// T1: fails when the health of an object that was made anew is that of its predecessor, whose messages were for another owner.
func TestTheHealthOfAnObjectIsNotItsPredecessors(t *testing.T) {
	s := oneOfEach()
	s.follower = true
	play(t, s, func(w *world) {
		former := newProvider("chat", func(p *v1.Provider) { p.UID = "former" })
		w.providers.verdicts.put(former, refused(former, fault{reason: v1.InvalidConfigReason, message: "of another owner"}))
		for _, h := range w.Health("team-a") {
			if strings.Contains(h.Problem, "of another owner") {
				t.Errorf("got %+v", h)
			}
		}
	})
}

// TestT6TheNamespacesAreFoundWithoutLookingAtTheirObjects is T6: a user's search for namespaces has no turn among those that read. Fails when a
// tenant's thousands of objects are listed to find their namespace.
func TestT6TheNamespacesAreFoundWithoutLookingAtTheirObjects(t *testing.T) {
	s := oneOfEach()
	for i := range 2000 {
		s.objects = append(s.objects, newProvider(fmt.Sprint("provider-", i)))
	}
	play(t, s, func(w *world) {
		if n := alloctest.Bytes(func() { w.Namespaces() }); n > 16<<10 {
			t.Errorf("%d KiB are allocated to find a namespace", n>>10)
		}
	})
}
