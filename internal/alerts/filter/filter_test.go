package filter

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alloctest"
)

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
		f, unserved, err := Compile(tc.inclusion, tc.exclusion)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(f.include) != tc.served || len(f.exclude) != len(tc.exclusion) || !strings.HasPrefix(unserved, tc.says) || (unserved == "") != (tc.says == "") {
			t.Errorf("%s: %d are served, %d excluded, %q", name, len(f.include), len(f.exclude), unserved)
		}
	}
	_, _, err := Compile(nil, make([]string, 257))
	if _, ok := errors.AsType[LimitError](err); !ok {
		t.Errorf("too many exclusions are told as %T", err)
	}
}

// T6: fails when faulty patterns cost nothing: those of one Alert could take gigabytes to parse.
func TestPatternsAtFaultTakeRoomAsWell(t *testing.T) {
	for name, bad := range map[string]string{
		"long":                              strings.Repeat(`\pL`, 8<<10/3),
		"short, with many names of classes": `(?i)[` + strings.Repeat(`\PL`, 83),
	} {
		list := slices.Repeat([]string{bad}, 256)
		allocated := alloctest.Bytes(func() {
			if _, _, err := Compile(list, nil); err == nil {
				t.Fatalf("%s: they compile", name)
			}
		})
		if allocated > 128<<20 {
			t.Errorf("%s: %d MiB are allocated for patterns that are refused", name, allocated>>20)
		}
	}
}

// Fails when a pattern at fault is not named by its place, when the others are not served, or when a list of inclusions without a valid one
// includes everything.
func TestEveryBadPatternIsNamed(t *testing.T) {
	f, _, err := Compile([]string{"(", "ok", "["}, []string{"no", ")"})
	for _, place := range []string{"spec.inclusionList[0]: ", "spec.inclusionList[2]: ", "spec.exclusionList[1]: "} {
		if err == nil || strings.Count(err.Error(), place) != 1 {
			t.Errorf("%s is not in %v", place, err)
		}
	}
	if f == nil || len(f.include) != 1 || len(f.exclude) != 1 {
		t.Errorf("the others are %+v", f)
	}
	if f, _, err := Compile([]string{"("}, []string{"no"}); f != nil || err == nil {
		t.Errorf("with no inclusion left: %+v, %v", f, err)
	}
}

func TestPatternsMatchAsInFlux(t *testing.T) {
	texts := []string{"no updates made", "no updates made, 3 errors", "error: no updates made", "No updates made", ""}
	for _, expr := range []string{
		"no updates made", "^no updates made$", `\Ano updates made\z`, "^no updates made", "no updates made$", "(?i)no updates made",
		"^(no updates made)$", "(?m)^no updates made$", "^$", "",
	} {
		f, _, err := Compile([]string{expr}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			m := NewBudget(1, time.Now).Message("team-a", text)
			r, exact := f.Admits(&m)
			if want := regexp.MustCompile(expr).MatchString(text); (r == Admitted) != want || !exact {
				t.Errorf("%q matches %q: %v, exact %v, want %v", expr, text, r == Admitted, exact, want)
			}
		}
	}
}

func TestMessagesAreClippedByCharacters(t *testing.T) {
	for name, tc := range map[string]struct {
		message string
		want    int
	}{
		"a short message stays":              {"ok", 2},
		"ASCII":                              {strings.Repeat("a", MaxText+5), MaxText},
		"characters of two bytes count once": {strings.Repeat("é", MaxText+5), 2 * MaxText},
		"just as long as allowed":            {strings.Repeat("é", MaxText), 2 * MaxText},
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

// E2: fails when the time is not checked during a match, when a match that was cut short counts as no match, or when it counts as a match
// because the part that was read has an end, as "^x*$" asks for.
func TestAMatchThatTakesTooLongIsCutShortAndPasses(t *testing.T) {
	clock := &ticking{now: time.Unix(0, 0), step: 10 * time.Millisecond}
	text := strings.Repeat("x", MaxText-1) + "z"
	for name, tc := range map[string]struct {
		inclusion, exclusion []string
		admit, exact         bool
	}{
		"an inclusion that was not finished": {inclusion: []string{"(a|b)[a-z]{5,50}y"}, admit: true},
		"an exclusion that was not finished": {exclusion: []string{"(a|b)[a-z]{5,50}y"}, admit: true},
		"an inclusion that asks for the end": {inclusion: []string{"(a|b)[a-z]{5,50}y|^x*$"}, admit: true},
		"an exclusion that asks for the end": {exclusion: []string{"(a|b)[a-z]{5,50}y|^x*$"}, admit: true},
		"a plain text is no trouble":         {inclusion: []string{"yes"}, admit: false, exact: true},
		"an exclusion that is plain to see":  {exclusion: []string{"xxx", "(a|b)[a-z]{5,50}y"}, admit: false, exact: true},
	} {
		f, _, err := Compile(tc.inclusion, tc.exclusion)
		if err != nil {
			t.Fatal(err)
		}
		m := NewBudget(1, clock.look).Message("team-a", text)
		v, exact := f.Admits(&m)
		if (v == Admitted) != tc.admit || exact != tc.exact {
			t.Errorf("%s: result %v, exact %v", name, v, exact)
		}
		if took := clock.look().Sub(m.started); took > messageTime+50*time.Millisecond {
			t.Errorf("%s: went on for %v", name, took)
		}
	}
}

// Events are matched at the same time: no spent time expires before the last of them. Fails when each event has its full messageTime, when
// all namespaces together have no bound, or when one namespace pays for the others.
func TestT6OneNamespaceCannotSpendTheOthersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &ticking{now: time.Unix(0, 0)}
		b := NewBudget(1, clock.look)
		spend := func(namespace string, wants time.Duration) time.Duration {
			m := b.Message(namespace, "")
			if m.exhausted() {
				return 0
			}
			clock.now = clock.now.Add(min(wants, m.left))
			return m.End()
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
		if got := total("b", 100) + total("c", 100); got > allTime-namespaceTime+messageTime {
			t.Errorf("b and c got %v", got)
		}
		if got := spend("modest", 10*time.Millisecond); got != 10*time.Millisecond {
			t.Errorf("modest got %v", got)
		}
		<-time.After(Window)
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
	text := strings.Repeat("Ж", MaxText)
	m := NewBudget(1, time.Now).Message("team-a", text)
	began := time.Now()
	_, ended := worst.match(&m)
	took := time.Since(began)
	t.Logf("size %d, ended %v after %v", worst.size, ended, took)
	if !ended && took > 2*messageTime {
		t.Errorf("stopped only after %v", took)
	}
	if math.Abs(float64(worst.size-patternBounds.Size)) > 200 {
		t.Errorf("size %d is not near the bound", worst.size)
	}
}

// BenchmarkWorstPattern measures one step of the worst pattern, for the bounds in pattern.go.
func BenchmarkWorstPattern(b *testing.B) {
	p, err := compilePattern(`(?:[ж-яЖ]{1,30}){1,32}\d`)
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("Ж", 1000)
	for b.Loop() {
		p.re.MatchString(text)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(p.size*1000), "ns/step")
}
