package watch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/internal/event"
)

// Fails when an operator is left out, when labels or expressions alone decide, or when another namespace's objects are found.
func TestSelectFindsByLabelsInOneNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		w.put(kustomization{name: "a", labels: map[string]string{"app": "x", "tier": "1"}})
		w.put(kustomization{name: "b", labels: map[string]string{"app": "x"}})
		w.put(kustomization{name: "c"})
		foreign := w.object(kustomization{name: "foreign", labels: map[string]string{"app": "x"}})
		foreign.SetNamespace("team-b")
		w.must(w.dynamic.Tracker().Create(kustomizations, foreign, "team-b"))
		watcher, stop := w.replica(false)
		defer stop()
		const current = "kustomize.toolkit.fluxcd.io/v1"
		demand := func(key, operator string, values ...string) []event.Requirement {
			return []event.Requirement{{Key: key, Operator: operator, Values: values}}
		}
		for name, c := range map[string]struct {
			apiVersion, kind string
			labels           map[string]string
			demands          []event.Requirement
			want             string
			watched          bool
		}{
			"one label":                {current, "Kustomization", map[string]string{"app": "x"}, nil, "a b", true},
			"two labels":               {current, "Kustomization", map[string]string{"app": "x", "tier": "1"}, nil, "a", true},
			"no labels":                {"", "Kustomization", nil, nil, "a b c", true},
			"in":                       {current, "Kustomization", nil, demand("app", "In", "x", "y"), "a b", true},
			"not in":                   {current, "Kustomization", nil, demand("tier", "NotIn", "1"), "b c", true},
			"exists":                   {current, "Kustomization", nil, demand("tier", "Exists"), "a", true},
			"does not exist":           {current, "Kustomization", nil, demand("tier", "DoesNotExist"), "b c", true},
			"labels and expressions":   {current, "Kustomization", map[string]string{"app": "x"}, demand("tier", "DoesNotExist"), "b", true},
			"an operator that is none": {current, "Kustomization", nil, demand("tier", "Gt", "0"), "", true},
			"another version":          {"kustomize.toolkit.fluxcd.io/v1beta2", "Kustomization", map[string]string{"tier": "1"}, nil, "a", true},
			"another group":            {"example.com/v1", "Kustomization", nil, nil, "", false},
			"an unknown kind":          {"example.com/v1", "Secret", nil, nil, "", false},
			"a kind without a CRD":     {sourceGroup + "/v1", "Bucket", nil, nil, "", false},
			"a malformed version":      {"a/b/c", "Kustomization", nil, nil, "", false},
			"an impossible matcher":    {"", "Kustomization", map[string]string{"a b": "!"}, nil, "", true},
		} {
			target := event.Target{APIVersion: c.apiVersion, Kind: c.kind, Name: "*", MatchLabels: c.labels, MatchExpressions: c.demands}
			names, watched := watcher.Select("team-a", target)
			slices.Sort(names)
			if got := strings.Join(names, " "); got != c.want || watched != c.watched {
				t.Errorf("%s: got %q, watched %v", name, got, watched)
			}
			for _, object := range []string{"a", "b", "c", "foreign", "absent"} {
				selected, watched := watcher.Selects("team-a", target, object)
				if selected != slices.Contains(strings.Fields(c.want), object) || watched != c.watched {
					t.Errorf("%s: %s selected %v, watched %v", name, object, selected, watched)
				}
			}
			if objects, watched := watcher.Objects("team-a", target); watched != c.watched {
				t.Errorf("%s: objects watched %v", name, watched)
			} else if watched {
				var got []string
				for object := range objects {
					got = append(got, object)
				}
				if strings.Join(got, " ") != c.want {
					t.Errorf("%s: objects %q, not ordered or not those", name, got)
				}
			}
		}
	})
}

// Fails when a part of the metadata is left out, or when an absent field appears as empty.
func TestAnObjectIsReadAsItsJSONHasItsMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		rich := w.object(kustomization{
			name: "rich", labels: map[string]string{"app": "x"},
			annotations: map[string]string{"team": "blue", corev1.LastAppliedConfigAnnotation: "{}", event.MetadataPrefix + "env": "prod"},
		})
		made := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("east", 3600)))
		rich.SetCreationTimestamp(made)
		rich.SetDeletionTimestamp(&made)
		w.must(w.dynamic.Tracker().Create(kustomizations, rich, "team-a"))
		w.put(kustomization{name: "bare"})
		watcher, stop := w.replica(false)
		defer stop()
		read := func(name string) map[string]any {
			objects, watched := watcher.Objects("team-a", event.Target{Kind: "Kustomization", Name: name})
			if !watched {
				t.Fatal("not watched")
			}
			for got, document := range objects {
				if got != name {
					t.Errorf("got %s for %s", got, name)
				}
				return document
			}
			return nil
		}
		want := map[string]any{
			"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
			"metadata": map[string]any{
				"name": "rich", "namespace": "team-a", "uid": "uid-1", "resourceVersion": rich.GetResourceVersion(), "generation": int64(1),
				"creationTimestamp": "2026-01-02T02:04:05Z", "deletionTimestamp": "2026-01-02T02:04:05Z",
				"labels":      map[string]string{"app": "x"},
				"annotations": map[string]string{"team": "blue", event.MetadataPrefix + "env": "prod"},
			},
		}
		if diff := cmp.Diff(want, read("rich")); diff != "" {
			t.Errorf("rich (-want +got):\n%s", diff)
		}
		bare, ok := read("bare")["metadata"].(map[string]any)
		if !ok || bare["labels"] != nil || bare["annotations"] != nil || bare["deletionTimestamp"] != nil {
			t.Errorf("bare: %v", bare)
		}
		if read("absent") != nil {
			t.Error("an object that there is not")
		}
	})
}

// Fails when the bound is missing, when it drops event annotations, or when it drops the small ones first.
func TestTheAnnotationsOfAnObjectAreBounded(t *testing.T) {
	all := map[string]string{
		"small": "1", "half": strings.Repeat("x", maxAnnotations/2), "large": strings.Repeat("x", maxAnnotations-8),
		corev1.LastAppliedConfigAnnotation: "{}", event.MetadataPrefix + "summary": strings.Repeat("x", 2*maxAnnotations),
	}
	got := slices.Sorted(maps.Keys(keptAnnotations(all)))
	if diff := cmp.Diff([]string{event.MetadataPrefix + "summary", "half", "small"}, got); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if kept := keptAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}); kept != nil {
		t.Errorf("kept %v", kept)
	}
}

// Annotations that are kept for filters are not published: fails when newRecord takes all annotations.
func TestOnlyEventAnnotationsArePublished(t *testing.T) {
	annotations := map[string]string{"team": "blue", event.MetadataPrefix + "env": "prod"}
	o := &object{kind: kindNamed("Kustomization"), objectMeta: objectMeta{Name: "app", Annotations: annotations}, revision: "r1"}
	record := newRecord(&transition{object: o}, lastPublished{}, lastPublished{})
	want := map[string]string{event.MetadataPrefix + "env": "prod", "kustomize.toolkit.fluxcd.io/revision": "r1"}
	if diff := cmp.Diff(want, record.Event.Metadata); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if len(annotations) != 2 {
		t.Error(fmt.Sprint("what the cache holds was changed: ", annotations))
	}
}
