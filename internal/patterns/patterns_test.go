package patterns

import (
	"errors"
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"
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
