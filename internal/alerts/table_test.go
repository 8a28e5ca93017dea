package alerts

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
)

func itoa(i int) string { return strconv.Itoa(i) }

func compiled(tb testing.TB, s AlertSpec) *Alert {
	tb.Helper()
	a, err := Compile(s)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func put(tb testing.TB, t *Table, namespace, name string, sources ...Source) {
	tb.Helper()
	a := compiled(tb, AlertSpec{Namespace: namespace, Name: name, UID: namespace + name, Provider: "chat", Sources: sources})
	t.Put(a)
}

func kustomization(namespace, name string) event.ObjectReference {
	return event.ObjectReference{
		Kind: "Kustomization", Namespace: namespace, Name: name, APIVersion: "kustomize.toolkit.fluxcd.io/v1",
	}
}

func names(alerts []*Alert) []string {
	var got []string
	for _, a := range alerts {
		got = append(got, a.Namespace+"/"+a.Name)
	}
	return got
}

func TestSourcesSelectByKindNameAndLabels(t *testing.T) {
	object := kustomization("team-a", "app")
	for name, tc := range map[string]struct {
		sources []Source
		labels  map[string]string
		matches bool
	}{
		"the name":                              {[]Source{{Kind: "Kustomization", Name: "app"}}, nil, true},
		"another name":                          {[]Source{{Kind: "Kustomization", Name: "other"}}, nil, false},
		"every name":                            {[]Source{{Kind: "Kustomization", Name: "*"}}, nil, true},
		"another kind":                          {[]Source{{Kind: "HelmRelease", Name: "*"}}, nil, false},
		"the kind in another case":              {[]Source{{Kind: "kustomization", Name: "*"}}, nil, false},
		"the second of two sources":             {[]Source{{Kind: "HelmRelease", Name: "x"}, {Kind: "Kustomization", Name: "app"}}, nil, true},
		"labels that are there":                 {[]Source{{Kind: "Kustomization", Name: "*", MatchLabels: map[string]string{"a": "1"}}}, map[string]string{"a": "1", "b": "2"}, true},
		"a label with another value":            {[]Source{{Kind: "Kustomization", Name: "*", MatchLabels: map[string]string{"a": "1"}}}, map[string]string{"a": "2"}, false},
		"an empty value is not a missing label": {[]Source{{Kind: "Kustomization", Name: "*", MatchLabels: map[string]string{"a": ""}}}, map[string]string{"b": ""}, false},
		"labels of an unknown object":           {[]Source{{Kind: "Kustomization", Name: "*", MatchLabels: map[string]string{"a": "1"}}}, nil, false},
		"labels beside a name":                  {[]Source{{Kind: "Kustomization", Name: "app", MatchLabels: map[string]string{"a": "1"}}}, map[string]string{}, false},
		"an empty selector and a known object":  {[]Source{{Kind: "Kustomization", Name: "*", MatchLabels: map[string]string{}}}, map[string]string{}, true},
		"an empty selector, unknown object":     {[]Source{{Kind: "Kustomization", Name: "*", MatchLabels: map[string]string{}}}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			table := NewTable()
			put(t, table, "team-a", "alert", tc.sources...)
			if got := len(selected(table, object, tc.labels)) == 1; got != tc.matches {
				t.Errorf("matches: %v", got)
			}
		})
	}
}

func TestAnAlertIsSelectedOnceAndInOrderOfNames(t *testing.T) {
	table := NewTable()
	any, exact := Source{Kind: "Kustomization", Name: "*"}, Source{Kind: "Kustomization", Name: "app"}
	put(t, table, "team-a", "c", any, exact, any)
	put(t, table, "team-a", "a", exact)
	put(t, table, "team-a", "b", any)
	got := names(selected(table, kustomization("team-a", "app"), nil))
	if diff := cmp.Diff([]string{"team-a/a", "team-a/b", "team-a/c"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestChangesCountAtTheNextEvent(t *testing.T) {
	table, object := NewTable(), kustomization("team-a", "app")
	any := Source{Kind: "Kustomization", Name: "*"}
	put(t, table, "team-a", "alert", any)
	if n := len(selected(table, object, nil)); n != 1 {
		t.Fatalf("%d selected", n)
	}
	a := compiled(t, spec(func(s *AlertSpec) { s.Suspend = true }))
	table.Put(a)
	if n := len(selected(table, object, nil)); n != 0 {
		t.Errorf("%d selected while suspended", n)
	}
	if live, ok := table.Lookup("team-a", "alert"); !ok || live != a {
		t.Error("a suspended Alert is not found")
	}
	table.Delete("team-a/alert")
	if _, ok := table.Lookup("team-a", "alert"); ok {
		t.Error("a deleted Alert is found")
	}
	put(t, table, "team-a", "alert", any)
	if n := len(selected(table, object, nil)); n != 1 {
		t.Errorf("%d selected after it was made anew", n)
	}
}

// TestAnotherNamespacesEventsAreNeverEvaluated is E1. Fails when Select reads other namespaces than the object's, or when Put adds
// an Alert to another namespace than its own.
func TestAnotherNamespacesEventsAreNeverEvaluated(t *testing.T) {
	table := NewTable()
	put(t, table, "team-a", "alert", Source{Kind: "Kustomization", Name: "*"})
	if got := selected(table, kustomization("team-b", "app"), nil); len(got) != 0 {
		t.Errorf("selected %v", names(got))
	}
	if _, there := table.Lookup("team-b", "alert"); there {
		t.Error("the Alert is in another namespace as well")
	}
	if got := selected(table, kustomization("team-a", "app"), nil); len(got) != 1 {
		t.Errorf("in its own namespace %v are selected", names(got))
	}
}

// filled returns a table with alerts spread over namespaces, all on one kind.
func filled(tb testing.TB, alerts, namespaces int) *Table {
	tb.Helper()
	table := NewTable()
	for i := range alerts {
		put(tb, table, fmt.Sprint("ns-", i%namespaces), fmt.Sprint("alert-", i), Source{Kind: "Kustomization", Name: "*"})
	}
	return table
}

func selected(table *Table, o event.ObjectReference, labels map[string]string) []*Alert {
	all, _ := table.Select(o, labels, nil)
	return all
}

// TestSelectingVisitsNothingOfOtherNamespaces is E8: Select allocates nothing, and does not look at other namespaces, which here have lost
// their Alerts. Fails when Select iterates over namespaces.
func TestSelectingVisitsNothingOfOtherNamespaces(t *testing.T) {
	table := filled(t, 10_000, 5_000)
	into, object := make([]*Alert, 0, 8), kustomization("ns-7", "app")
	table.namespaces.Range(func(name, _ any) bool {
		if name != "ns-7" {
			table.namespaces.Store(name, (*namespace)(nil))
		}
		return true
	})
	if allocs := testing.AllocsPerRun(100, func() { into, _ = table.Select(object, nil, into[:0]) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	if len(into) != 2 {
		t.Errorf("selected %v", names(into))
	}
}

// The two must cost the same (E8).
func BenchmarkSelect(b *testing.B) {
	for _, size := range []struct{ alerts, namespaces int }{{10, 5}, {10_000, 5_000}} {
		b.Run(fmt.Sprintf("alerts=%d", size.alerts), func(b *testing.B) {
			table := filled(b, size.alerts, size.namespaces)
			objects := make([]event.ObjectReference, size.namespaces)
			for i := range objects {
				objects[i] = kustomization(fmt.Sprint("ns-", i), "app")
				table.Select(objects[i], nil, nil)
			}
			into := make([]*Alert, 0, 8)
			i := 0
			for b.Loop() {
				into, _ = table.Select(objects[i%min(5, len(objects))], nil, into[:0])
				i++
			}
		})
	}
}

// T6: fails when a namespace without Alerts stays in memory.
func TestT6TheTableForgetsNamespacesWithoutAlerts(t *testing.T) {
	table := NewTable()
	for i := range 10 {
		for _, name := range []string{"a", "b"} {
			table.Put(&Alert{Namespace: fmt.Sprint("team-", i), Name: name, UID: name})
		}
		table.Delete(fmt.Sprintf("team-%d/a", i))
		table.Delete(fmt.Sprintf("team-%d/b", i))
		table.Delete(fmt.Sprintf("team-%d/b", i))
	}
	for name := range table.namespaces.Range {
		t.Errorf("%v is kept", name)
	}
}
