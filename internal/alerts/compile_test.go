package alerts

import (
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// tooLong is a pattern beyond the bound on one pattern.
var tooLong = strings.Repeat("a", 8<<10+1)

func spec(change func(*AlertSpec)) AlertSpec {
	s := AlertSpec{
		Namespace: "team-a", Name: "alert", UID: "uid-1", Provider: "chat",
		Sources: []Source{{Kind: "Kustomization", Name: "*"}},
	}
	if change != nil {
		change(&s)
	}
	return s
}

func TestABadSpecIsAnErrorThatNamesThePlace(t *testing.T) {
	for name, tc := range map[string]struct {
		spec AlertSpec
		want string
	}{
		"a pattern that does not parse": {
			spec(func(s *AlertSpec) { s.Exclusion = []string{"fine", "(unclosed"} }), "spec.exclusionList[1]: pattern is not valid",
		},
		"a pattern that is too long": {
			spec(func(s *AlertSpec) { s.Inclusion = []string{tooLong} }), "spec.inclusionList[0]: pattern is longer",
		},
		"a pattern that would cost seconds": {
			spec(func(s *AlertSpec) { s.Inclusion = []string{`((\pL?x?y?){0,30}z?){0,33}`} }), "spec.inclusionList[0]: pattern is too expensive",
		},
		"an exclusion that is too long": {
			spec(func(s *AlertSpec) { s.Exclusion = []string{"fine", tooLong} }),
			"spec.exclusionList[1]: pattern is longer than 8192 bytes; so that it is not ignored, the Alert matches nothing",
		},
		"nested repetitions whose product overflows": {
			spec(func(s *AlertSpec) { s.Inclusion = []string{`((((((a*){1000}b)*c){500}){2}){1000}|d)`} }), "spec.inclusionList[0]: pattern is",
		},
		"too many exclusions": {
			spec(func(s *AlertSpec) { s.Exclusion = make([]string, 257) }),
			"spec.exclusionList has too many patterns, and only the first 256 could be served: so that none is ignored, the Alert matches nothing",
		},
		"exclusions that are too dear together": {
			spec(func(s *AlertSpec) { s.Exclusion = slices.Repeat([]string{strings.Repeat("a", 8<<10)}, 8) }),
			"spec.exclusionList has too many patterns, and only the first 7 could be served",
		},
		"exclusions that leave no room": {
			spec(func(s *AlertSpec) { s.Inclusion, s.Exclusion = []string{"x"}, make([]string, 256) }), "leaves no room for spec.inclusionList",
		},
		"an unknown severity": {spec(func(s *AlertSpec) { s.Severity = "warning" }), "spec.eventSeverity"},
		"no provider":         {spec(func(s *AlertSpec) { s.Provider = "" }), "spec.providerRef.name"},
		"a provider's name that is none": {
			spec(func(s *AlertSpec) { s.Provider = strings.Repeat("a", 254) }), "spec.providerRef.name is longer",
		},
		"a source without a kind": {
			spec(func(s *AlertSpec) { s.Sources = append(s.Sources, Source{Name: "x"}) }), "spec.eventSources[1]",
		},
		"more metadata than fits beside an event": {
			spec(func(s *AlertSpec) { s.Metadata = map[string]string{"k": strings.Repeat("v", maxMetadata)} }), "spec.eventMetadata",
		},
		"a summary that is too long": {spec(func(s *AlertSpec) { s.Summary = strings.Repeat("é", 256) }), "spec.summary"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := Compile(tc.spec)
			if served := name == "a pattern that does not parse"; err == nil || !strings.Contains(err.Error(), tc.want) || (a != nil) != served {
				t.Errorf("got an Alert: %t, %v", a != nil, err)
			}
		})
	}
}

// TestASourceInAnotherNamespaceIsDenied is E1. Fails when setSources serves it.
func TestASourceInAnotherNamespaceIsDenied(t *testing.T) {
	a, err := Compile(spec(func(s *AlertSpec) {
		s.Sources = []Source{
			{Kind: "Kustomization", Name: "theirs", Namespace: "team-b"},
			{Kind: "Kustomization", Name: "ours", Namespace: "team-a"},
			{Kind: "Kustomization", Name: "any", Namespace: "*"},
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := []Source{
		{Kind: "Kustomization", Name: "theirs", Namespace: "team-b"}, {Kind: "Kustomization", Name: "any", Namespace: "*"},
	}
	if diff := cmp.Diff(want, a.Denied); diff != "" {
		t.Error(diff)
	}
	if len(a.sources) != 1 || a.sources[0].key.name != "ours" {
		t.Errorf("serves %v", a.sources)
	}
}

// Fails when every Alert of a large cluster has memory of its own for rare fields, or shares fields that it sets itself.
func TestAnAlertWithoutExtrasHasNoRoomForThem(t *testing.T) {
	plain := compiled(t, AlertSpec{Namespace: "team-a", Name: "plain", Provider: "chat", Sources: []Source{{Kind: "Kustomization", Name: "*"}}})
	if plain.extras != &noExtras {
		t.Error("room of its own")
	}
	if size := unsafe.Sizeof(*plain); size > 208 {
		t.Errorf("an Alert takes %d bytes", size)
	}
	for name, change := range map[string]func(*AlertSpec){
		"denied":    func(s *AlertSpec) { s.Sources[0].Namespace = "team-b" },
		"inclusion": func(s *AlertSpec) { s.Inclusion = []string{"x"} },
		"exclusion": func(s *AlertSpec) { s.Exclusion = []string{"x"} },
		"metadata":  func(s *AlertSpec) { s.Metadata = map[string]string{"a": "b"} },
		"summary":   func(s *AlertSpec) { s.Summary = "x" },
	} {
		s := AlertSpec{Namespace: "team-a", Name: name, Provider: "chat", Sources: []Source{{Kind: "Kustomization", Name: "*"}}}
		change(&s)
		if compiled(t, s).extras == &noExtras {
			t.Errorf("%s is shared with all Alerts", name)
		}
	}
}
