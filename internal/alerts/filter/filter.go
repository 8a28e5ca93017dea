package filter

import (
	"errors"
	"fmt"

	"notifier/internal/patterns"
)

// Bounds on the lists of one Alert.
const (
	maxPatterns    = 256      // of both lists
	maxPatternText = 64 << 10 // bytes of both lists
)

// Filter has the compiled patterns of an Alert. The zero value admits every message.
type Filter struct{ include, exclude []pattern }

// LimitError names the part of the lists that is beyond a bound, so that the Alert cannot work as specified.
type LimitError string

func (e LimitError) Error() string { return string(e) }

// Compile compiles the exclusions first, since all of them count, and then as many inclusions as the bounds allow. The error joins the
// faults. A pattern at fault never matches, as with Flux, and the filter has the others. It is nil if the Alert matches nothing: if no
// inclusion is left, or with a LimitError.
//
// If there are too many inclusions, the first are served and unserved names the bound: the Alert sends less than its spec asks for. An
// exclusion beyond a bound is a LimitError: without it the Alert would send notifications that its author excludes, and a sent
// notification cannot be taken back.
func Compile(inclusion, exclusion []string) (f *Filter, unserved string, err error) {
	room := patternRoom{maxPatterns, programs, maxPatternText}
	excluding, left, faults := room.compile("exclusionList", exclusion)
	if left > 0 {
		return nil, "", LimitError(fmt.Sprintf("spec.exclusionList has too many patterns, and only the first %d could be served: so that "+
			"none is ignored, the Alert matches nothing", len(exclusion)-left))
	}
	for _, f := range faults {
		if _, beyond := errors.AsType[patterns.LimitError](f); beyond {
			return nil, "", LimitError(f.Error() + "; so that it is not ignored, the Alert matches nothing")
		}
	}
	including, left, more := room.compile("inclusionList", inclusion)
	switch {
	case left > 0 && left == len(inclusion):
		return nil, "", LimitError("spec.exclusionList leaves no room for spec.inclusionList: the Alert matches nothing")
	case left > 0:
		unserved = fmt.Sprintf("spec.inclusionList has too many patterns, and only the first %d are served: "+
			"join them, or use another Alert", len(inclusion)-left)
	}
	err = errors.Join(append(more, faults...)...)
	if len(inclusion) > 0 && len(including) == 0 {
		return nil, "", err
	}
	return &Filter{including, excluding}, unserved, err
}

// Empty reports whether the filter has no patterns.
func (f *Filter) Empty() bool { return len(f.include)+len(f.exclude) == 0 }

// Result is whether a message is admitted, or why not.
type Result int

// The results. An exclusion wins over an inclusion, and without inclusions every message is included.
const (
	Admitted Result = iota
	NotIncluded
	Excluded
)

// Admits decides about a message. When the message's time runs out, exact is false and the message is admitted, unless an exclusion matched
// before.
func (f *Filter) Admits(m *Message) (r Result, exact bool) {
	if f.Empty() {
		return Admitted, true
	}
	included, exact := m.matches(f.include)
	if exact && !included && len(f.include) > 0 {
		return NotIncluded, true
	}
	excluded, ended := m.matches(f.exclude)
	if excluded {
		return Excluded, true
	}
	return Admitted, exact && ended
}

func (m *Message) matches(patterns []pattern) (matched, exact bool) {
	exact = true
	for i := range patterns {
		hit, ended := patterns[i].match(m)
		if hit {
			return true, true
		}
		exact = exact && ended
	}
	return false, exact
}

// patternRoom is the remaining capacity of an Alert for patterns.
type patternRoom struct{ patterns, instructions, text int }

// compile compiles a list as far as there is capacity. It returns the number of patterns left out, and the faults of the others. A faulty
// pattern is charged as a valid one of its length: it was parsed as well.
func (r *patternRoom) compile(list string, expressions []string) (compiled []pattern, left int, faults []error) {
	for i, expr := range expressions {
		length := min(len(expr), patternBounds.Source+1) // of a longer one the rest may have been cut off
		if r.patterns == 0 || length > r.text {
			return compiled, len(expressions) - i, faults
		}
		p, err := compilePattern(expr)
		if err != nil {
			p.size = max(p.size, min(2*length, patternBounds.Size))
		}
		switch {
		case p.size > r.instructions:
			return compiled, len(expressions) - i, faults
		case err != nil:
			faults = append(faults, fmt.Errorf("spec.%s[%d]: %w", list, i, err))
		default:
			compiled = append(compiled, p)
		}
		r.patterns, r.instructions, r.text = r.patterns-1, r.instructions-p.size, r.text-length
	}
	return compiled, 0, faults
}
