package patterns

import (
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"
)

// Fails when instructions counts less than the compiler makes, for any kind of node.
func TestProgramSizeIsAnUpperBound(t *testing.T) {
	for _, source := range []string{
		"", "a", "abc", "(?i)abc", "a|b", "abc|def|ghi", "a*", "a+?", "a?", "(a)(b)", "a{3}", "a{3,}", "a{3,7}", "(ab|c){2,5}d",
		"^a$", `\bfoo\B`, "[a-z]{10}", `(\d+\.){3}\d+`, "((a{5}){5}){5}", "(a*)*", "(a?b?)*", "(|a)*", ".*failed.*", "(?s).{0,100}",
		"[^x]{2,}", "((a|b)*c){3,4}",
	} {
		size, err := Size(source)
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
		// Every program has a fail and a match instruction beside.
		if n := len(prog.Inst) - 2; n > size+1 {
			t.Errorf("%q: estimated %d, compiled %d", source, size, n)
		}
	}
}

// Fails when MaxSize is too small for a long pattern without repetitions.
func TestALongPatternWithoutRepetitionsIsAccepted(t *testing.T) {
	words := strings.Repeat("failed|", MaxSource/7)
	for _, source := range []string{words + "x", strings.Repeat("a", MaxSource)} {
		if _, _, err := Compile(source); err != nil {
			t.Error(err)
		}
	}
}

// Fails when Compile does not ask for the Size.
func TestAPatternBeyondABoundIsRefused(t *testing.T) {
	for source, want := range map[string]string{
		strings.Repeat("a", MaxSource+1): "longer than",
		"(unclosed":                      "not valid",
		`((\pL?x?y?){0,30}z?){0,33}`:     "too expensive",
	} {
		if _, _, err := Compile(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", source, err, want)
		}
	}
}

// Fails when each user of a pattern has a program of its own, or when a program is kept without a user.
func TestAPatternIsKeptOnceAndNoLongerThanItIsUsed(t *testing.T) {
	const source = "^only in this test$"
	func() {
		first, _, err := Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		second, _, err := Compile(source)
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
