package alerts

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"notifier/internal/event"
)

// FuzzE1AnEventIsSelectedByTheAlertsThatNameItsObject compares a Table after any changes with a look at each source of each Alert. Fails when an
// index keeps a source of an Alert that was replaced, suspended or deleted, or when an Alert of another namespace is selected.
func FuzzE1AnEventIsSelectedByTheAlertsThatNameItsObject(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		table, specs, kept := NewTable(), map[string]AlertSpec{}, map[string]*Alert{}
		some := func(of ...string) string { return of[rng.IntN(len(of))] }
		for range 500 {
			namespace, name := some("team-a", "team-b"), some("a", "b", "c", "d", "e")
			key := namespace + "/" + name
			switch a := kept[key]; rng.IntN(6) {
			case 0:
				table.Delete(key)
				delete(specs, key)
				delete(kept, key)
			case 1:
				if a != nil {
					table.Put(a) // once more
				}
			default:
				spec := AlertSpec{Namespace: namespace, Name: name, UID: some("1", "2"), Provider: "chat", Suspend: rng.IntN(6) == 0}
				for range rng.IntN(5) {
					source := Source{Kind: some("Kustomization", "HelmRelease"), Name: some("*", "app", "infra")}
					if rng.IntN(2) == 0 {
						source.MatchLabels = map[string]string{}
						for range rng.IntN(3) {
							source.MatchLabels[some("env", "tier")] = some("prod", "test")
						}
					}
					spec.Sources = append(spec.Sources, source)
				}
				a, err := Compile(spec)
				if err != nil {
					t.Fatal(err)
				}
				table.Put(a)
				specs[key], kept[key] = spec, a
			}
			object := event.ObjectReference{Namespace: some("team-a", "team-b"), Kind: some("Kustomization", "HelmRelease"), Name: some("app", "infra", "web")}
			labels := map[string]string{"env": some("prod", "test")}
			if rng.IntN(3) == 0 {
				labels = nil
			}
			var want, got []string
			for _, key := range slices.Sorted(maps.Keys(specs)) {
				if spec := specs[key]; spec.Namespace == object.Namespace && !spec.Suspend && slices.ContainsFunc(spec.Sources, func(s Source) bool {
					return namesObject(s, object, labels)
				}) {
					want = append(want, spec.Name)
				}
			}
			found, _ := table.Select(object, labels, nil)
			for _, a := range found {
				got = append(got, a.Name)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%v with the labels %v is selected by %v, want %v", object, labels, got, want)
			}
		}
	})
}

// namesObject reports whether a source names an object, whose labels are nil if they are not known.
func namesObject(s Source, o event.ObjectReference, labels map[string]string) bool {
	if s.Kind != o.Kind || s.Name != o.Name && s.Name != "*" || s.MatchLabels != nil && labels == nil {
		return false
	}
	for key, value := range s.MatchLabels {
		if labels[key] != value {
			return false
		}
	}
	return true
}
