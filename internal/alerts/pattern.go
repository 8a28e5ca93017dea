package alerts

import (
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"notifier/internal/patterns"
)

const (
	// maxText is how many characters of a message are matched: Flux's limit on a message.
	maxText = 39000
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
		return pattern{}, err
	}
	p := pattern{re: re, size: size}
	p.literal, p.plain = re.LiteralPrefix()
	return p, nil
}

// match reports whether the pattern matches text. When the meter runs out first, ended is false and matched is meaningless.
func (p *pattern) match(text string, m *meter) (matched, ended bool) {
	if m.exhausted() {
		return false, false
	}
	switch {
	case p.plain:
		return strings.Contains(text, p.literal), true
	case p.size*len(text) <= cheapSteps:
		return p.re.MatchString(text), true
	}
	// The reader can stop a match in progress: the matcher then sees the end of the text, and its result is disregarded.
	r := &meteredReader{text: text, meter: m, stride: min(clockStride, max(1, clockSteps/p.size))}
	matched = p.re.MatchReader(r)
	return matched, !r.stopped
}

// meteredReader reads a text until it ends or the meter runs out.
type meteredReader struct {
	text string
	at   int
	// passed counts the characters since the last look at the clock, which is due after stride.
	passed  int
	stride  int
	meter   *meter
	stopped bool
}

// ReadRune implements io.RuneReader.
func (r *meteredReader) ReadRune() (rune, int, error) {
	if r.passed++; r.passed >= r.stride {
		r.passed = 0
		r.stopped = r.stopped || r.meter.exhausted()
	}
	if r.stopped || r.at >= len(r.text) {
		return 0, 0, io.EOF
	}
	if c := r.text[r.at]; c < utf8.RuneSelf {
		r.at++
		return rune(c), 1, nil
	}
	c, size := utf8.DecodeRuneInString(r.text[r.at:])
	r.at += size
	return c, size, nil
}

// clip cuts a message to maxText characters.
func clip(message string) string {
	if len(message) <= maxText {
		return message
	}
	n := 0
	for i := range message {
		if n == maxText {
			return message[:i]
		}
		n++
	}
	return message
}
