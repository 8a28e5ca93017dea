package cel

import (
	"fmt"
	"strings"
	"testing"

	"notifier/internal/alloctest"
)

// Fails when a webhook's patterns at fault are charged as texts, and not as what is parsed: a filter over many took the whole second.
func TestT6PatternsAtFaultAreChargedForTheirParsing(t *testing.T) {
	p, err := Compile(`req.all(pattern, "a".matches(pattern) || true)`, Bool, "req")
	if err != nil {
		t.Fatal(err)
	}
	cost := func(pattern string) uint64 {
		body := make([]any, 5000)
		for i := range body {
			body[i] = fmt.Sprint(i) + pattern
		}
		return alloctest.Bytes(func() {
			if _, err := p.Bool(t.Context(), map[string]any{"req": body}); err != ErrCost { //nolint:errorlint // a constant
				t.Errorf("%.10q: %v", pattern, err)
			}
		})
	}
	valid := cost("(?i)[" + strings.Repeat(`\PL`, 20) + "]")
	for _, faulty := range []string{strings.Repeat("(", 1000), "(?i)[" + strings.Repeat(`\PL`, 20), `(?i)[\PL`} {
		if got := cost(faulty); got > 10*valid {
			t.Errorf("%.10q: %d KiB are allocated, and %d for valid ones", faulty, got>>10, valid>>10)
		}
	}
}
