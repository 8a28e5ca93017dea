package patterns

import (
	"errors"
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"

	"notifier/internal/alloctest"
)

var bounds = Bounds{Source: 1 << 10, Size: 2000}

// Fails when instructions counts less than the compiler makes, for any kind of node.
func TestProgramSizeIsAnUpperBound(t *testing.T) {
	for _, source := range []string{
		"", "a", "abc", "(?i)abc", "a|b", "abc|def|ghi", "a*", "a+?", "a?", "(a)(b)", "a{3}", "a{3,}", "a{3,7}", "(ab|c){2,5}d",
		"^a$", `\bfoo\B`, "[a-z]{10}", `(\d+\.){3}\d+`, "((a{5}){5}){5}", "(a*)*", "(a?b?)*", "(|a)*", ".*failed.*", "(?s).{0,100}",
		"[^x]{2,}", "((a|b)*c){3,4}",
	} {
		size, err := bounds.Measure(source)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := syntax.Parse(source, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		// Every program has a fail and a match instruction in addition.
		if n := len(prog.Inst) - 2; n > size+1 {
			t.Errorf("%q: estimated %d, compiled %d", source, size, n)
		}
	}
}

// Fails when a long pattern without repetitions is counted as more than its bytes.
func TestALongPatternWithoutRepetitionsIsAccepted(t *testing.T) {
	words := strings.Repeat("failed|", bounds.Source/7)
	for _, source := range []string{words + "x", strings.Repeat("a", bounds.Source), strings.Repeat("[a-z]", bounds.Source/5)} {
		if _, _, err := bounds.Compile(source); err != nil {
			t.Error(err)
		}
	}
}

// Fails when Compile does not measure, when the ranges of a class are not counted, or when a pattern beyond a bound is reported as
// not valid.
func TestAPatternBeyondABoundIsRefused(t *testing.T) {
	for source, want := range map[string]string{
		strings.Repeat("a", bounds.Source+1): "longer than",
		"(unclosed":                          "not valid",
		`((\d?x?y?){0,30}z?){0,33}`:          "too expensive",
		strings.Repeat(`\pL`, 100):           "too expensive",
	} {
		_, _, err := bounds.Compile(source)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", source, err, want)
		}
		if _, beyond := errors.AsType[LimitError](err); beyond == (want == "not valid") {
			t.Errorf("%.40q: %v is told as beyond a bound: %t", source, err, beyond)
		}
	}
}

// Fails when each user of a pattern has its own program, or when a program without a user is kept.
func TestAPatternIsKeptOnceAndNoLongerThanItIsUsed(t *testing.T) {
	const source = "^only in this test$"
	func() {
		first, _, err := bounds.Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		second, _, err := bounds.Compile(source)
		if err != nil || first != second {
			t.Errorf("two programs for one pattern: %v", err)
		}
		runtime.KeepAlive(first)
	}()
	for range 100 {
		runtime.GC() // the cleanup runs some time after
		if _, kept := live.Load(source); !kept {
			return
		}
	}
	t.Error("a pattern that nobody uses is kept")
}

// Fails when a pattern of a few kilobytes takes many times the memory, and so the time, of an ordinary one of its length to compile.
func TestT6NoPatternIsFarDearerToCompileThanItsLength(t *testing.T) {
	most := Bounds{Source: 8 << 10, Size: 16_000} // of an Alert's patterns
	cost := func(source string) uint64 {
		return alloctest.Bytes(func() { _, _, _ = most.Compile(source) })
	}
	ordinary := cost(strings.Repeat(".*", most.Source/2))
	var letters strings.Builder
	for r := rune(0x4e00); r < 0x4e00+480; r++ {
		letters.WriteString(string(0x4e00+2*(r-0x4e00)) + "?")
	}
	for name, source := range map[string]string{
		"it could be matched in one pass":        "^" + letters.String() + "$",
		"names of classes become a few ranges":   "(?i)[" + strings.Repeat(`\pL`, 2600) + "]",
		"as many names as there may be":          "(?i)[" + strings.Repeat(`\PL`, 190) + "]",
		"names of classes in what is not closed": "(?i)[" + strings.Repeat(`\pL`, 2600),
		"escapes before names of classes":        "[" + strings.Repeat(`\\\pL`, 1600) + "]",
	} {
		if got := cost(source); got > 8*ordinary {
			t.Errorf("%s: %d KiB are allocated, and %d for an ordinary pattern", name, got>>10, ordinary>>10)
		}
	}
}

// Fails when a pattern that is not matched in one pass matches otherwise than one that is.
func TestALongAnchoredPatternMatchesAsWritten(t *testing.T) {
	most := Bounds{Source: 8 << 10, Size: 16_000}
	long := strings.Repeat("a?b", 40)
	for source, texts := range map[string][2]string{
		"^" + long + "$":            {strings.Repeat("b", 40), "x" + strings.Repeat("b", 40)},
		"^" + long + "|c":           {"xc", "xb"},
		"{x}" + long:                {"{x}" + strings.Repeat("ab", 40), strings.Repeat("ab", 40)},
		"(?i)^" + long:              {strings.Repeat("B", 40), "-" + strings.Repeat("B", 40)},
		`\Q^\E` + long + `[\\p]\\P`: {"^" + strings.Repeat("b", 40) + `p\P`, strings.Repeat("b", 40) + `p\P`},
	} {
		re, _, err := most.Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		if !re.MatchString(texts[0]) || re.MatchString(texts[1]) {
			t.Errorf("%.20q: %v and %v", source, re.MatchString(texts[0]), re.MatchString(texts[1]))
		}
	}
	if _, _, err := most.Compile("*" + long); err == nil {
		t.Error("a repetition of nothing compiles")
	}
}
