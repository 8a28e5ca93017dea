package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
	"notifier/internal/alerts"
	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// selected returns the names of the table's Alerts for a Kustomization of the namespace.
func (w *world) selected(namespace string) []string {
	app := event.ObjectReference{Kind: "Kustomization", Namespace: namespace, Name: "app"}
	found, _ := w.options.Alerts.Select(app, map[string]string{}, nil)
	names := []string{}
	for _, a := range found {
		names = append(names, a.Name)
	}
	return names
}

func TestAnAlertsReadyConditionStatesItsFault(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1.Alert)
		ready  string
		says   string
		unused bool
	}{
		"a good one is served": {
			change: func(*v1.Alert) {}, ready: "True Succeeded", says: "Alert initialized",
		},
		"a suspended one matches nothing": {
			change: func(a *v1.Alert) { a.Spec.Suspend = true }, ready: "False Suspended", unused: true,
		},
		"a source of another namespace is denied, and the others work": {
			change: func(a *v1.Alert) {
				a.Spec.EventSources = append(a.Spec.EventSources,
					v1.CrossNamespaceObjectReference{Kind: "Kustomization", Name: "secret", Namespace: "team-b"})
			},
			ready: "False CrossNamespaceDenied", says: `is in namespace "team-b": an Alert sees objects of its own namespace only; it is not served, the others are`,
		},
		"without a source of its own namespace it matches nothing": {
			change: func(a *v1.Alert) { a.Spec.EventSources[0].Namespace = "team-b" },
			ready:  "False CrossNamespaceDenied", says: "and no other source is left to serve", unused: true,
		},
		"a Provider that does not exist": {
			change: func(a *v1.Alert) { a.Spec.ProviderRef.Name = "absent" },
			ready:  "False ProviderNotFound", says: `Provider "absent" does not exist: make it, or correct spec.providerRef; events are kept`,
		},
		"a Provider that is not ready": {
			change: func(a *v1.Alert) { a.Spec.ProviderRef.Name = "broken" },
			ready:  "False ProviderNotReady", says: `Provider "broken" cannot be sent to (InvalidConfig): see its status; events are kept`,
		},
		"errors alone for a Provider that waits for recoveries": {
			change: func(a *v1.Alert) { a.Spec.ProviderRef.Name, a.Spec.EventSeverity = "pager", v1.SeverityError },
			ready:  "True Succeeded", says: `Alert initialized; eventSeverity "error" leaves out the recoveries by which Provider "pager" resolves`,
		},
		"errors alone for a chat": {
			change: func(a *v1.Alert) { a.Spec.EventSeverity = v1.SeverityError }, ready: "True Succeeded", says: "Alert initialized",
		},
		"an exclusion that does not compile excludes nothing": {
			change: func(a *v1.Alert) { a.Spec.ExclusionList = []string{"fine", "("} },
			ready:  "False InvalidConfig", says: "spec.exclusionList[1]",
		},
		"an inclusion that does not compile leaves the others": {
			change: func(a *v1.Alert) { a.Spec.InclusionList = []string{"(", "fine"} },
			ready:  "False InvalidConfig", says: "spec.inclusionList[0]",
		},
		"no inclusion that compiles matches nothing": {
			change: func(a *v1.Alert) { a.Spec.InclusionList = []string{"("} },
			ready:  "False InvalidConfig", says: "spec.inclusionList[0]", unused: true,
		},
		"more inclusions than are served": {
			change: func(a *v1.Alert) { a.Spec.InclusionList = slices.Repeat([]string{"x"}, 257) },
			ready:  "False LimitExceeded", says: "too many patterns, and only the first 256 are served",
		},
		"more exclusions than can be served": {
			change: func(a *v1.Alert) { a.Spec.ExclusionList = slices.Repeat([]string{"x"}, 257) },
			ready:  "False LimitExceeded", says: "the Alert matches nothing", unused: true,
		},
		"an exclusion that is too long": {
			change: func(a *v1.Alert) { a.Spec.ExclusionList = []string{strings.Repeat("x", 9000)} },
			ready:  "False LimitExceeded", says: "spec.exclusionList[0]: pattern is longer", unused: true,
		},
		"a bad inclusion and a foreign source": {
			change: func(a *v1.Alert) {
				a.Spec.InclusionList = []string{"(", "fine"}
				a.Spec.EventSources = append(a.Spec.EventSources,
					v1.CrossNamespaceObjectReference{Kind: "Kustomization", Name: "secret", Namespace: "team-b"})
			},
			ready: "False InvalidConfig", says: `is in namespace "team-b"`,
		},
		"more sources than are served": {
			change: func(a *v1.Alert) {
				more := v1.CrossNamespaceObjectReference{Kind: "HelmRelease", Name: "app"}
				a.Spec.EventSources = append(a.Spec.EventSources, slices.Repeat([]v1.CrossNamespaceObjectReference{more}, alerts.MaxSources)...)
			},
			ready: "False LimitExceeded", says: "too many entries, and only the first 1024 are served",
		},
		"a spec that does not decode": {
			change: func(a *v1.Alert) { a.Annotations = map[string]string{kube.Undecodable: "true"} },
			ready:  "False ValidationFailed", says: "cannot be read", unused: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			broken := newProvider("broken", func(p *v1.Provider) { p.Spec.Address = "" })
			pager := newProvider("pager", func(p *v1.Provider) { p.Spec.Type, p.Spec.SecretRef = "pagerduty", ref("pager") })
			objects := []runtime.Object{newAlert("alert", tc.change), newProvider("chat"), broken, pager}
			play(t, settings{objects: objects, secrets: []*corev1.Secret{newSecret("pager", "token", "t")}}, func(w *world) {
				if message := w.ready("Alert", "alert", tc.ready); !strings.Contains(message, tc.says) {
					t.Errorf("message: got %q, want %q in it", message, tc.says)
				}
				if got := len(w.selected("team-a")) == 0; got != tc.unused {
					t.Errorf("matches nothing: got %t, want %t", got, tc.unused)
				}
				if _, ok := w.options.Alerts.Lookup("team-a", "alert"); !ok {
					t.Error("what was routed for it before would end as that of a deleted Alert")
				}
			})
		})
	}
}

// Fails when a change of a Provider does not change the status of the Alerts that name it.
func TestAnAlertFollowsItsProvider(t *testing.T) {
	play(t, settings{objects: []runtime.Object{newAlert("alert")}}, func(w *world) {
		w.ready("Alert", "alert", "False ProviderNotFound")
		w.apply("Provider", newProvider("chat"))
		w.ready("Alert", "alert", "True Succeeded")
		w.apply("Provider", newProvider("chat", func(p *v1.Provider) { p.Spec.Address = "ftp://x" }))
		w.ready("Alert", "alert", "False ProviderNotReady")
		w.remove("Provider", "chat")
		w.ready("Alert", "alert", "False ProviderNotFound")
		if got := w.selected("team-a"); len(got) != 1 {
			t.Errorf("selected: %v", got)
		}
	})
}

func TestADeletedAlertIsGone(t *testing.T) {
	play(t, settings{objects: []runtime.Object{newAlert("alert"), newProvider("chat")}}, func(w *world) {
		w.remove("Alert", "alert")
		if _, ok := w.options.Alerts.Lookup("team-a", "alert"); ok {
			t.Error("still there")
		}
	})
}

// Fails when the youngest Alert is served in the place of an older one, or when a free place is not given to the next.
func TestOnlyTheOldestAlertsOfANamespaceAreServed(t *testing.T) {
	aged := func(name string, minutes int) *v1.Alert {
		return newAlert(name, func(a *v1.Alert) {
			a.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, minutes, 0, 0, time.UTC))
		})
	}
	s := settings{objects: []runtime.Object{newProvider("chat"), aged("c", 1), aged("a", 2), aged("b", 2), aged("d", 3)}}
	other := aged("other", 9)
	other.Namespace = "team-b"
	s.objects = append(s.objects, other)
	s.change = func(o *Options) { o.MaxAlertsPerNamespace = 2 }
	play(t, s, func(w *world) {
		check := func(served, over string) {
			t.Helper()
			if got := strings.Join(w.selected("team-a"), " "); got != served {
				t.Errorf("served: got %q, want %q", got, served)
			}
			for name := range strings.FieldsSeq(over) {
				if message := w.ready("Alert", name, "False LimitExceeded"); !strings.Contains(message, "more than 2 Alerts") {
					t.Errorf("message: %s", message)
				}
			}
			for name := range strings.FieldsSeq(served) {
				w.ready("Alert", name, "True Succeeded")
			}
		}
		check("a c", "b d")
		if got := w.selected("team-b"); len(got) != 1 {
			t.Errorf("another namespace: %v", got)
		}
		w.remove("Alert", "c")
		check("a b", "d")
		w.apply("Alert", aged("c", 0))
		check("a c", "b d")
		w.remove("Alert", "a")
		w.remove("Alert", "b")
		check("c d", "")
	})
}

func TestAnAlertsSpecIsHandedOverWhole(t *testing.T) {
	a := newAlert("alert", func(a *v1.Alert) {
		a.CreationTimestamp = metav1.Unix(1000, 0)
		a.Spec = v1.AlertSpec{
			ProviderRef: v1.LocalObjectReference{Name: "chat"}, EventSeverity: "error", Summary: "s",
			EventSources: []v1.CrossNamespaceObjectReference{
				{Kind: "HelmRelease", Name: "app", Namespace: "team-a", MatchLabels: map[string]string{"a": "b"}},
			},
			InclusionList: []string{"i"}, ExclusionList: []string{"e"}, EventMetadata: map[string]string{"k": "v"}, Suspend: true,
		}
	})
	got, want := fmt.Sprintf("%+v", alertSpec(a)), fmt.Sprintf("%+v", alerts.AlertSpec{
		Namespace: "team-a", Name: "alert", UID: "uid-alert", Created: time.Unix(1000, 0),
		Provider: "chat", Severity: "error", Summary: "s", Suspend: true,
		Sources:   []alerts.Source{{Kind: "HelmRelease", Name: "app", Namespace: "team-a", MatchLabels: map[string]string{"a": "b"}}},
		Inclusion: []string{"i"}, Exclusion: []string{"e"}, Metadata: map[string]string{"k": "v"},
	})
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Fails when the status of an Alert stays as it was, or advises to make the Provider, while its Provider is being deleted, which a
// finalizer of others makes last.
func TestAnAlertTellsThatItsProviderIsBeingDeleted(t *testing.T) {
	play(t, settings{objects: []runtime.Object{newProvider("chat"), newAlert("alert")}}, func(w *world) {
		w.ready("Alert", "alert", "True Succeeded")
		w.apply("Provider", newProvider("chat", func(p *v1.Provider) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/others"}
		}))
		if says := w.ready("Alert", "alert", "False ProviderNotFound"); !strings.Contains(says, `Provider "chat" is being deleted: nothing is sent to it`) {
			t.Errorf("message: %q", says)
		}
	})
}
