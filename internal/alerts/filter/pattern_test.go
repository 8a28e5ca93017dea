package filter

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Fails when a pattern is compared as a text that it is not, or a text is matched as a pattern.
func TestOnlyAPatternThatIsATextIsComparedAsOne(t *testing.T) {
	for expr, literal := range map[string]string{"healthy": "healthy", `a\.b/c`: "a.b/c", "(?:failed)": "failed", "": ""} {
		if p, err := compilePattern(expr); err != nil || !p.plain || p.literal != literal {
			t.Errorf("%q is the text %q: %t, %v", expr, p.literal, p.plain, err)
		}
	}
	for _, expr := range []string{"^healthy$", "^healthy", "healthy$", "^$", `\bok\b`, "(?i)healthy", "health."} {
		if p, err := compilePattern(expr); err != nil || p.plain {
			t.Errorf("%q is the text %q: %t, %v", expr, p.literal, p.plain, err)
		}
	}
}

// T6: fails when the time to compile a text is the square of its length, as it was when the pattern was matched with its own text: 0.3 s for
// one, and seconds for each change of an Alert with seven.
func TestT6TheTimeToCompileATextIsInItsLength(t *testing.T) {
	compile := func(text string) time.Duration {
		took := make([]time.Duration, 5)
		for i := range took {
			began := time.Now()
			if p, err := compilePattern(text); err != nil || !p.plain {
				t.Fatal(p.plain, err)
			}
			took[i] = time.Since(began)
		}
		return slices.Min(took)
	}
	if worst, ordinary := compile(strings.Repeat("a", 8<<10)), compile("b"+strings.Repeat("a", 8<<10-1)); worst > 20*ordinary {
		t.Errorf("%v for a text of equal characters, %v for another of its length", worst, ordinary)
	}
}
