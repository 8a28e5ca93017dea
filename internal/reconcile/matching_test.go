package reconcile

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
	"notifier/internal/alerts"
	"notifier/internal/event"
)

// watchedObjects is a watchers' cache of team-a: the names of the objects by kind. A kind with a nil list is still being read.
type watchedObjects map[string][]string

func (w watchedObjects) Pending(kind string) bool { list, ok := w[kind]; return ok && list == nil }

func (w watchedObjects) Objects(string, event.Target) (objects iter.Seq2[string, map[string]any], watched bool) {
	return nil, false
}

func (w watchedObjects) Select(namespace string, t event.Target) (names []string, watched bool) {
	names, watched = w[t.Kind]
	if namespace != "team-a" {
		panic("a look at another namespace")
	}
	if len(t.MatchLabels) > 0 {
		names = nil
	}
	return names, watched && !strings.HasPrefix(t.APIVersion, "example.com/")
}

func (w watchedObjects) Selects(namespace string, t event.Target, name string) (selected, watched bool) {
	names, watched := w.Select(namespace, t)
	for _, n := range names {
		selected = selected || n == name
	}
	return selected && watched, watched
}

// changingObjects is a watchers' cache that a test changes.
type changingObjects struct {
	now    atomic.Pointer[watchedObjects]
	counts atomic.Int64
}

func (c *changingObjects) Pending(kind string) bool { return c.now.Load().Pending(kind) }

func (c *changingObjects) Objects(string, event.Target) (objects iter.Seq2[string, map[string]any], watched bool) {
	return nil, false
}

func (c *changingObjects) Select(namespace string, t event.Target) (names []string, watched bool) {
	c.counts.Add(1)
	return c.now.Load().Select(namespace, t)
}

func (c *changingObjects) Selects(namespace string, t event.Target, name string) (selected, watched bool) {
	return c.now.Load().Selects(namespace, t, name)
}

var fluxKinds = []string{"GitRepository", "HelmRelease", "Kustomization", "ImagePolicy", "Bucket"}

func TestMatchesAreCountedAndAnAlertWithoutMatchesIsReported(t *testing.T) {
	source := func(kind, name string) v1.CrossNamespaceObjectReference {
		return v1.CrossNamespaceObjectReference{Kind: kind, Name: name}
	}
	labelled, foreign := source("Kustomization", "app"), source("Kustomizaton", "secret")
	labelled.MatchLabels, foreign.Namespace = map[string]string{"a": "b"}, "team-b"
	for name, tc := range map[string]struct {
		sources []v1.CrossNamespaceObjectReference
		want    string
		says    []string
	}{
		"some of a kind": {
			[]v1.CrossNamespaceObjectReference{source("Kustomization", "*")}, "True ObjectsMatch", []string{"2 objects match"},
		},
		"one, twice": {
			[]v1.CrossNamespaceObjectReference{source("GitRepository", "*"), source("GitRepository", "repo")},
			"True ObjectsMatch",
			[]string{"1 object matches"},
		},
		"one of several kinds has none": {
			[]v1.CrossNamespaceObjectReference{source("Kustomization", "*"), source("HelmRelease", "*")},
			"True ObjectsMatch",
			[]string{"2 objects match", `spec.eventSources[1]: HelmRelease "*" matches none`},
		},
		"a kind that is misspelt": {
			[]v1.CrossNamespaceObjectReference{source("Kustomization", "*"), source("HelmRelase", "*")},
			"False UnknownKind",
			[]string{"2 objects match", "spec.eventSources[1]: no kind HelmRelase is known, is HelmRelease meant?"},
		},
		"a kind in small letters": {
			[]v1.CrossNamespaceObjectReference{source("gitrepository", "repo")}, "False UnknownKind", []string{"is GitRepository meant?"},
		},
		"a kind in plural": {
			[]v1.CrossNamespaceObjectReference{source("HelmReleases", "repo")}, "False UnknownKind", []string{"is HelmRelease meant?"},
		},
		"a kind in plural that ends in y": {
			[]v1.CrossNamespaceObjectReference{source("GitRepositories", "repo")}, "False UnknownKind", []string{"is GitRepository meant?"},
		},
		"a short kind of somebody else": {
			[]v1.CrossNamespaceObjectReference{source("Ticket", "*")}, "Unknown NotWatched", nil,
		},
		"a kind of somebody else": {
			[]v1.CrossNamespaceObjectReference{source("Terraform", "*")}, "Unknown NotWatched", []string{"1 entry is of a kind that is not watched"},
		},
		"a kind of somebody else, by label": {
			[]v1.CrossNamespaceObjectReference{{Kind: "Terraform", Name: "*", MatchLabels: map[string]string{"a": "b"}}, source("Ticket", "*")},
			"False NothingMatches",
			[]string{`spec.eventSources[0]: Terraform "*" has no effect`, "1 entry is of a kind that is not watched"},
		},
		"an object that is not there": {
			[]v1.CrossNamespaceObjectReference{source("Kustomization", "*"), source("Kustomization", "ap")},
			"False NothingMatches",
			[]string{"2 objects match", `spec.eventSources[1]: Kustomization "ap" does not exist`},
		},
		"an object without the label": {
			[]v1.CrossNamespaceObjectReference{labelled}, "False NothingMatches", []string{`Kustomization "app" does not exist, or lacks a label`},
		},
		"nothing of the kind": {
			[]v1.CrossNamespaceObjectReference{source("HelmRelease", "*")}, "False NothingMatches", []string{"0 objects match", "matches none"},
		},
		"a kind that the cluster does not serve": {
			[]v1.CrossNamespaceObjectReference{source("Bucket", "b")}, "False NothingMatches", []string{"the cluster does not serve"},
		},
		"a foreign one is not looked for": {
			[]v1.CrossNamespaceObjectReference{source("Kustomization", "*"), foreign}, "True ObjectsMatch", []string{"2 objects match"},
		},
		"only foreign ones": {
			[]v1.CrossNamespaceObjectReference{foreign},
			"False NothingMatches",
			[]string{"0 objects match; no entry names an object of this namespace"},
		},
		"beyond those that are counted": {
			append(slices.Repeat([]v1.CrossNamespaceObjectReference{source("Kustomization", "*")}, maxLookedAt), source("HelmRelase", "*")),
			"True ObjectsMatch",
			[]string{"2 objects match", "only the first 64 entries are counted"},
		},
		"a kind that is still being read": {[]v1.CrossNamespaceObjectReference{source("ImagePolicy", "*")}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings{objects: []runtime.Object{newProvider("chat"), newAlert("alert", func(a *v1.Alert) { a.Spec.EventSources = tc.sources })}}
			s.change = watching(watchedObjects{
				"Kustomization": {"app", "db"}, "GitRepository": {"repo"}, "HelmRelease": {}, "ImagePolicy": nil,
			})
			play(t, s, func(w *world) {
				short, message := w.condition("Alert", "alert", matchingCondition)
				if short != tc.want {
					t.Errorf("got %s %q, want %s", short, message, tc.want)
				}
				for _, says := range tc.says {
					if !strings.Contains(message, says) {
						t.Errorf("message: got %q, want %q in it", message, says)
					}
				}
			})
		})
	}
}

func watching(objects watchedObjects) func(*Options) {
	return func(o *Options) { o.Objects, o.Kinds = objects, fluxKinds }
}

// Fails when a Receiver's targets, or the sources of a Receiver of type event, are not counted. Fails when another group's apiVersion is
// reported as a fault, or when a Receiver that is no longer served still shows its matches.
func TestAReceiverTellsWhatItsTargetsMatch(t *testing.T) {
	s := settings{secrets: []*corev1.Secret{newSecret("hook", "token", "t1")}}
	s.change = watching(watchedObjects{"GitRepository": {"app"}, "ImagePolicy": {}})
	play(t, s, func(w *world) {
		check := func(r *v1.Receiver, want, says string) {
			t.Helper()
			w.apply("Receiver", r)
			if short, message := w.condition("Receiver", r.Name, matchingCondition); short != want || !strings.Contains(message, says) {
				t.Errorf("got %s %q, want %s %q", short, message, want, says)
			}
		}
		check(newReceiver("app"), "True ObjectsMatch", "1 object matches")
		check(newReceiver("app", func(r *v1.Receiver) {
			r.Spec.Resources = append(r.Spec.Resources, reference("", "GitRepositry", "app"))
		}), "False UnknownKind", "spec.resources[1]: no kind GitRepositry is known, is GitRepository meant?")
		check(newReceiver("app", func(r *v1.Receiver) { r.Spec.Resources[0].Name = "other" }), "False NothingMatches", `"other" does not exist`)
		check(newReceiver("app", func(r *v1.Receiver) {
			r.Spec.Resources[0] = reference("example.com/v1", "GitRepository", "app")
		}), "Unknown NotWatched", "not watched")
		for _, labels := range []map[string]string{{}, {"a": "b"}} {
			check(newReceiver("app", func(r *v1.Receiver) {
				r.Spec.Resources[0] = reference("example.com/v1", "GitRepository", "*")
				r.Spec.Resources[0].MatchLabels = labels
			}), "False NothingMatches", `spec.resources[0]: GitRepository "*" has no effect: notifier does not watch the kind`)
		}
		check(newEventReceiver("event"), "False NothingMatches", `spec.eventSources[0]: ImagePolicy "app" does not exist`)
		check(newEventReceiver("event", func(r *v1.Receiver) {
			r.Spec.EventSources[0].Kind = "Terraform"
		}), "False NothingMatches", `spec.eventSources[0]: Terraform "app" has no effect`)
		w.apply("Receiver", newReceiver("app", func(r *v1.Receiver) { r.Spec.ServiceAccountName = "not one!" }))
		if short, _ := w.condition("Receiver", "app", matchingCondition); short != "" {
			t.Errorf("without service: %s", short)
		}
	})
}

// Fails when the objects are not counted again soon after a change, and late without one: an Alert is often made before the objects it
// names.
func TestObjectsCreatedAfterTheAlertAreCounted(t *testing.T) {
	var objects changingObjects
	objects.now.Store(&watchedObjects{"Kustomization": {}})
	s := settings{objects: []runtime.Object{newProvider("chat"), newAlert("alert", func(a *v1.Alert) {
		a.CreationTimestamp = metav1.NewTime(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) // the time at which the bubble begins
	})}, change: func(o *Options) { o.Objects, o.Kinds = &objects, fluxKinds }}
	play(t, s, func(w *world) {
		is := func(want string) {
			t.Helper()
			if short, message := w.condition("Alert", "alert", matchingCondition); short != want {
				t.Errorf("got %s %q, want %s", short, message, want)
			}
		}
		change := func(names ...string) {
			objects.now.Store(&watchedObjects{"Kustomization": append([]string{}, names...)})
			w.ObjectsChanged("team-b")
			w.ObjectsChanged("team-a")
			pass(lookAgainSoon + time.Second)
		}
		is("Unknown NothingMatches") // the object may have been applied with the Alert
		objects.now.Store(&watchedObjects{"Kustomization": {"app"}})
		pass(lookAgainSoon + time.Second)
		is("True ObjectsMatch")
		if got := w.events.take(); slices.ContainsFunc(got, func(e string) bool { return strings.Contains(e, "Warning") }) {
			t.Errorf("an object that came a moment later was warned of: %q", got)
		}
		change()
		is("False NothingMatches")
		if got := w.events.take(); len(got) != 1 || !strings.Contains(got[0], "Warning "+v1.NothingMatchesReason) {
			t.Errorf("events %q, want one Warning", got)
		}
		change("app")
		is("True ObjectsMatch")
		objects.now.Store(&watchedObjects{"Kustomization": {}})
		pass(lookAgainLate / 2)
		is("True ObjectsMatch")
		pass(lookAgainLate/2 + 2*time.Minute)
		is("False NothingMatches")
	})
}

// Fails when an Alert that matches nothing is counted again and again although nothing changes: thousands of them cost a part of a
// processor at rest.
func TestAnAlertThatMatchesNothingIsCountedLate(t *testing.T) {
	for _, c := range []struct {
		when    string
		objects watchedObjects
		age     time.Duration
		want    time.Duration
	}{
		{"young", watchedObjects{"Kustomization": {}}, 0, lookAgainSoon},
		{"older", watchedObjects{"Kustomization": {}}, time.Minute, lookAgainLate},
		{"the objects are being read", watchedObjects{"Kustomization": nil}, time.Minute, lookAgainSoon},
	} {
		matches := newMatcher(c.objects, fluxKinds)
		alert := newAlert("alert", func(a *v1.Alert) { a.CreationTimestamp = metav1.NewTime(time.Now().Add(-c.age)) })
		matches.show(alert)
		if got := matches.again(alert); got != c.want {
			t.Errorf("%s: counted again after %s, want %s", c.when, got, c.want)
		}
	}
}

// Fails when objects that change all the time have a namespace's Alerts counted more than twice a second.
func TestTheRecountsOfANamespaceAreBounded(t *testing.T) {
	const alerts = 40
	var objects changingObjects
	objects.now.Store(&watchedObjects{"Kustomization": {"app"}})
	s := settings{objects: []runtime.Object{newProvider("chat")}, change: func(o *Options) { o.Objects, o.Kinds = &objects, fluxKinds }}
	for i := range alerts {
		s.objects = append(s.objects, newAlert(fmt.Sprint("alert-", i)))
	}
	play(t, s, func(w *world) {
		pass(time.Minute)
		before := objects.counts.Load()
		for range 600 {
			w.ObjectsChanged("team-a")
			pass(time.Second / 10)
		}
		if n := objects.counts.Load() - before; n < 2*alerts || n > 2*60 {
			t.Errorf("%d counts in a minute", n)
		}
	})
}

// Fails when a start writes statuses without the counts of objects that are still being read, and then all of them once more.
func TestTheFirstStatusWaitsForTheObjects(t *testing.T) {
	var objects changingObjects
	objects.now.Store(&watchedObjects{"Kustomization": nil, "GitRepository": nil})
	s := oneOfEach()
	s.change = func(o *Options) { o.Objects, o.Kinds = &objects, fluxKinds }
	play(t, s, func(w *world) {
		if diff := cmp.Diff(map[string]int{"update providers/status": 1}, w.writes()); diff != "" {
			t.Errorf("while the objects are being read (-want +got):\n%s", diff)
		}
		objects.now.Store(&watchedObjects{"Kustomization": {"app"}, "GitRepository": {"app"}})
		w.settle()
		all := map[string]int{"update providers/status": 1, "update alerts/status": 1, "update receivers/status": 1}
		if diff := cmp.Diff(all, w.writes()); diff != "" {
			t.Errorf("when they are read (-want +got):\n%s", diff)
		}
		for kind, name := range map[string]string{"Alert": "alert", "Receiver": "app"} {
			if short, message := w.condition(kind, name, matchingCondition); short != "True ObjectsMatch" {
				t.Errorf("%s: %s %q", kind, short, message)
			}
		}
	})
}

// Fails when the report on patterns that take too long is overwritten, or stays when they are in time again.
func TestSlowPatternsAreReportedInsteadOfMatches(t *testing.T) {
	s := settings{objects: []runtime.Object{newProvider("chat"), newAlert("alert")}, change: watching(watchedObjects{"Kustomization": {"app"}})}
	play(t, s, func(w *world) {
		for _, step := range []struct {
			told alerts.Health
			want string
		}{
			{alerts.Health{State: alerts.StateFailing, Reason: alerts.ReasonPatternsTimed, Message: "m"}, "False PatternsTooExpensive"},
			{alerts.Health{State: alerts.StateOK, Reason: alerts.ReasonPatternsInTime, Message: "m"}, "True ObjectsMatch"},
		} {
			w.tell("Alert", "alert", alerts.Standing{UID: "uid-alert", Health: step.told})
			if short, message := w.condition("Alert", "alert", matchingCondition); short != step.want {
				t.Errorf("got %s %q, want %s", short, message, step.want)
			}
		}
	})
}

// Fails when the report of another worker on patterns that take too long stays for ever, though no worker is left to end it, or goes while
// the next worker may not have met such a pattern yet.
func TestSlowPatternsThatAnotherWorkerReportedEndAfterAnHour(t *testing.T) {
	slow := newAlert("alert")
	play(t, settings{
		objects: []runtime.Object{newProvider("chat"), slow}, change: watching(watchedObjects{"Kustomization": {"app"}}),
		prepare: func(w *world) {
			a := slow.DeepCopy()
			meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{
				Type: matchingCondition, Status: metav1.ConditionFalse, Reason: alerts.ReasonPatternsTimed, LastTransitionTime: metav1.Now(),
			})
			if err := w.cluster.Tracker.Update(resources["Alert"], a, a.Namespace); err != nil {
				t.Fatal(err)
			}
		},
	}, func(w *world) {
		for _, want := range []string{"False PatternsTooExpensive", "True ObjectsMatch"} {
			if got, message := w.condition("Alert", "alert", matchingCondition); got != want {
				t.Errorf("got %s %q, want %s", got, message, want)
			}
			pass(othersShown + 2*lookAgainLate)
		}
	})
}

// T6: fails when the whole of a long spec is looked at for a condition that counts its first entries, three times for each status.
func TestT6OnlyTheCountedEntriesOfASpecAreLookedAt(t *testing.T) {
	r := newReceiver("app", func(r *v1.Receiver) {
		r.Spec.Resources = slices.Repeat([]v1.ReceiverResource{reference("", "GitRepository", "app")}, 512)
	})
	a := newAlert("alert", func(a *v1.Alert) { a.Spec.EventSources = slices.Repeat(a.Spec.EventSources, alerts.MaxSources) })
	if n := max(len(mentionsOf(r)), len(mentionsOf(a))); n != maxLookedAt+1 {
		t.Errorf("%d entries are looked at, want %d and one that tells of more", n, maxLookedAt)
	}
}

func TestEditsCountWhatTurnsOneWordIntoTheOther(t *testing.T) {
	for pair, want := range map[string]int{
		"/": 0, "a/": 1, "/ab": 2, "kitten/sitting": 3, "bucket/bucket": 0, "helmrelase/helmrelease": 1, "gitrepo/gitrepository": 6,
	} {
		a, b, _ := strings.Cut(pair, "/")
		if got := edits(a, b); got != want {
			t.Errorf("%s: got %d, want %d", pair, got, want)
		}
	}
}
