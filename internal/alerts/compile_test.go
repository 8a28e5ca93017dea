package alerts

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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
			if err == nil || !strings.Contains(err.Error(), tc.want) || a != nil {
				t.Errorf("got an Alert: %t, %v", a != nil, err)
			}
		})
	}
}

// Fails when each list is counted on its own, when other patterns than the first are served, when an unserved inclusion is not reported,
// or when all are served regardless of their cost.
func TestOfTooManyInclusionsTheFirstAreServed(t *testing.T) {
	numbered := func(n int) []string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf("number %d$", i)
		}
		return list
	}
	for name, tc := range map[string]struct {
		inclusion, exclusion []string
		served               int
		says                 string
	}{
		"as many as there may be": {numbered(200), numbered(56), 200, ""},
		"too many":                {numbered(300), numbered(56), 200, "spec.inclusionList has too many patterns, and only the first 200 are served"},
		"too dear together": {
			append(slices.Repeat([]string{strings.Repeat("a", 8<<10)}, 7), append(numbered(1), strings.Repeat("b", 8<<10))...), nil, 8,
			"spec.inclusionList has too many patterns, and only the first 8 are served",
		},
	} {
		a, err := Compile(spec(func(s *AlertSpec) { s.Inclusion, s.Exclusion = tc.inclusion, tc.exclusion }))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(a.include) != tc.served || len(a.exclude) != len(tc.exclusion) || !strings.HasPrefix(a.Unserved, tc.says) || (a.Unserved == "") != (tc.says == "") {
			t.Errorf("%s: %d are served, %d excluded, %q", name, len(a.include), len(a.exclude), a.Unserved)
		}
	}
	_, err := Compile(spec(func(s *AlertSpec) { s.Exclusion = make([]string, 257) }))
	if _, ok := errors.AsType[LimitError](err); !ok {
		t.Errorf("too many exclusions are told as %T", err)
	}
}

// T6: fails when faulty patterns cost nothing: those of one Alert could take gigabytes to parse.
func TestPatternsAtFaultTakeRoomAsWell(t *testing.T) {
	bad := strings.Repeat(`\pL`, 8<<10/3)
	list := slices.Repeat([]string{bad}, 200)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := Compile(spec(func(s *AlertSpec) { s.Inclusion = list })); err == nil {
		t.Fatal("they compile")
	}
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	if allocated > 256<<20 {
		t.Errorf("%d MiB are allocated for patterns that are refused", allocated>>20)
	}
}

func TestEveryBadPatternIsNamed(t *testing.T) {
	_, err := Compile(spec(func(s *AlertSpec) { s.Inclusion = []string{"(", "ok", "["} }))
	p, ok := errors.AsType[*PatternError](err)
	if !ok || p.List != "inclusionList" || p.Index != 0 || !strings.Contains(err.Error(), "inclusionList[2]") {
		t.Errorf("got %v", err)
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
	if len(a.sources) != 1 || a.sources[0].Name != "ours" {
		t.Errorf("serves %v", a.sources)
	}
}

func TestMessagesAreClippedByCharacters(t *testing.T) {
	for name, tc := range map[string]struct {
		message string
		want    int
	}{
		"a short message stays":              {"ok", 2},
		"ASCII":                              {strings.Repeat("a", maxText+5), maxText},
		"characters of two bytes count once": {strings.Repeat("é", maxText+5), 2 * maxText},
		"just as long as allowed":            {strings.Repeat("é", maxText), 2 * maxText},
	} {
		if got := len(clip(tc.message)); got != tc.want {
			t.Errorf("%s: %d bytes", name, got)
		}
	}
}

// ticking is a clock that advances at every look.
type ticking struct {
	now  time.Time
	step time.Duration
}

func (c *ticking) look() time.Time {
	c.now = c.now.Add(c.step)
	return c.now
}

// Fails when the meter is not checked during a match, or when a match that was cut short counts as no match.
func TestAMatchThatTakesTooLongIsCutShortAndPasses(t *testing.T) {
	clock := &ticking{now: time.Unix(0, 0), step: 10 * time.Millisecond}
	text := strings.Repeat("x", maxText)
	for name, tc := range map[string]struct {
		inclusion, exclusion []string
		admit, exact         bool
	}{
		"an inclusion that was not finished": {inclusion: []string{"(a|b)[a-z]{5,50}y"}, admit: true},
		"an exclusion that was not finished": {exclusion: []string{"(a|b)[a-z]{5,50}y"}, admit: true},
		"a plain text is no trouble":         {inclusion: []string{"yes"}, admit: false, exact: true},
		"an exclusion that is plain to see":  {exclusion: []string{"xxx", "(a|b)[a-z]{5,50}y"}, admit: false, exact: true},
	} {
		a, err := Compile(spec(func(s *AlertSpec) { s.Inclusion, s.Exclusion = tc.inclusion, tc.exclusion }))
		if err != nil {
			t.Fatal(err)
		}
		m := meter{budget: newBudget(clock.look), namespace: "team-a"}
		ruled, exact := a.admits(text, &m)
		if (ruled == ruledTaken) != tc.admit || exact != tc.exact {
			t.Errorf("%s: ruling %v, exact %v", name, ruled, exact)
		}
		if took := clock.look().Sub(m.started); took > eventTime+50*time.Millisecond {
			t.Errorf("%s: went on for %v", name, took)
		}
	}
}

// Events are matched at the same time: no spent time expires before the last of them. Fails when each event has its full eventTime, when
// all namespaces together have no bound, or when one namespace pays for the others.
func TestT6OneNamespaceCannotSpendTheOthersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &ticking{now: time.Unix(0, 0)}
		b := newBudget(clock.look)
		spend := func(namespace string, wants time.Duration) time.Duration {
			m := meter{budget: b, namespace: namespace}
			if m.exhausted() {
				return 0
			}
			clock.now = clock.now.Add(min(wants, m.left))
			return m.end()
		}
		total := func(namespace string, events int) (sum time.Duration) {
			for range events {
				sum += spend(namespace, time.Minute)
			}
			return sum
		}
		if got := total("a", 100); got != namespaceTime {
			t.Errorf("a got %v", got)
		}
		if got := total("b", 100) + total("c", 100); got > allTime-namespaceTime+eventTime {
			t.Errorf("b and c got %v", got)
		}
		if got := spend("modest", 10*time.Millisecond); got != 10*time.Millisecond {
			t.Errorf("modest got %v", got)
		}
		pass(budgetWindow)
		if got := total("a", 100); got != namespaceTime {
			t.Errorf("a window later a got %v", got)
		}
	})
}

// TestTheWorstPatternIsStopped measures real time: the most expensive pattern that compiles, on the most expensive text.
func TestTheWorstPatternIsStopped(t *testing.T) {
	worst, err := compilePattern(strings.Repeat(`(?:[ж-яЖ]{1,30}){1,32}`, 8) + `[ж-я]{1,100}\d`)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("Ж", maxText)
	m := meter{budget: newBudget(time.Now), namespace: "team-a"}
	began := time.Now()
	_, ended := worst.match(text, &m)
	took := time.Since(began)
	t.Logf("size %d, ended %v after %v", worst.size, ended, took)
	if !ended && took > 2*eventTime {
		t.Errorf("stopped only after %v", took)
	}
	if math.Abs(float64(worst.size-patternBounds.Size)) > 200 {
		t.Errorf("size %d is not near the bound", worst.size)
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
