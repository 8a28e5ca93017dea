package filter

import (
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"notifier/internal/patterns"
)

const (
	// MaxText is how many characters of a message are matched: Flux's limit on a message.
	MaxText = 39000
	// cheapSteps is the product of program and text below which a match is not interrupted: it takes a few milliseconds at 10 to 20 ns a
	// step.
	cheapSteps = 200_000
	// clockStride is how many characters pass between two looks at the clock. They are fewer where their product with the program is more
	// than clockSteps.
	clockStride = 64
	clockSteps  = 128_000
)

// patternBounds are the bounds of one pattern. programs bounds the instructions of all patterns of an Alert together, so that many
// patterns cost no more memory and compile time than a few.
var patternBounds = patterns.Bounds{Source: 8 << 10, Size: 16_000}

const programs = 64_000

// pattern is a compiled regular expression whose matching can be cut short.
type pattern struct {
	re   *regexp.Regexp
	size int
	// literal is the text of a plain pattern, which matches any message that contains it.
	literal string
	plain   bool
}

func compilePattern(expr string) (pattern, error) {
	re, size, err := patternBounds.Compile(expr)
	if err != nil {
		return pattern{size: size}, err
	}
	p := pattern{re: re, size: size}
	// LiteralPrefix calls "^text$" complete too, which does not match the text within another.
	if literal, complete := re.LiteralPrefix(); complete && isLiteral(expr) {
		p.literal, p.plain = literal, true
	}
	return p, nil
}

// isLiteral reports whether a valid pattern is nothing but a text. Its form is looked at: to match it would take seconds, for a text whose
// parts are equal.
func isLiteral(expr string) bool {
	tree, err := syntax.Parse(expr, syntax.Perl)
	return err == nil && (tree.Op == syntax.OpLiteral || tree.Op == syntax.OpEmptyMatch)
}

// match reports whether the pattern matches a message. When its time runs out first, both results are false.
func (p *pattern) match(m *Message) (matched, ended bool) {
	if m.exhausted() {
		return false, false
	}
	switch {
	case p.plain:
		return strings.Contains(m.text, p.literal), true
	case p.size*len(m.text) <= cheapSteps:
		return p.re.MatchString(m.text), true
	}
	// The reader can stop a match in progress: the matcher then sees the end of the text, where a pattern such as "^x*$" matches what it has
	// read, and its result is disregarded.
	r := &timedReader{message: m, stride: min(clockStride, max(1, clockSteps/p.size))}
	matched = p.re.MatchReader(r)
	return matched && !r.stopped, !r.stopped
}

// timedReader reads a message until it ends or its time runs out.
type timedReader struct {
	message *Message
	at      int
	// passed counts the characters since the last look at the clock, which is due after stride.
	passed  int
	stride  int
	stopped bool
}

// ReadRune implements io.RuneReader.
func (r *timedReader) ReadRune() (rune, int, error) {
	if r.passed++; r.passed >= r.stride {
		r.passed = 0
		r.stopped = r.stopped || r.message.exhausted()
	}
	text := r.message.text
	if r.stopped || r.at >= len(text) {
		return 0, 0, io.EOF
	}
	if c := text[r.at]; c < utf8.RuneSelf {
		r.at++
		return rune(c), 1, nil
	}
	c, size := utf8.DecodeRuneInString(text[r.at:])
	r.at += size
	return c, size, nil
}

// clip cuts a message to MaxText characters.
func clip(message string) string {
	if len(message) <= MaxText {
		return message
	}
	n := 0
	for i := range message {
		if n == MaxText {
			return message[:i]
		}
		n++
	}
	return message
}
