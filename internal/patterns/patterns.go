// Package patterns compiles the regular expressions of tenants within bounds on the cost of a match.
//
// Go matches in time linear in pattern and text. The pattern's part is the size of its program, so a short pattern with nested
// repetitions can cost seconds on a long text. The size is therefore bounded, and is returned for callers that bound a match as
// well.
package patterns

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"runtime"
	"sync"
	"weak"
)

const (
	// sizeCeiling ends the counting long before the numbers overflow.
	sizeCeiling = 1 << 30
	// classRunes is the number of range bounds in a character class that take as much memory as an instruction.
	classRunes = 16
	// nameSize is the Size of the largest class that has a name, such as \pL.
	nameSize = 83
	// maxOnePass is the Size beyond which a pattern is not prepared to be matched in one pass, as regexp does for anchored ones of up to a
	// thousand instructions: that takes time and memory by the third power of their number, 630 MB for "^" and 480 letters with "?".
	maxOnePass = 64
)

// Bounds bound a pattern.
type Bounds struct {
	// Source bounds the source in bytes.
	Source int
	// Size bounds the instructions of the compiled program. Fewer than two for each byte of Source refuse long patterns without
	// repetitions.
	Size int
}

// LimitError says that a pattern, which may be valid, is beyond Bounds.
type LimitError string

func (e LimitError) Error() string { return string(e) }

// Compile returns the compiled pattern and its Size. The error quotes only the source. It is a LimitError for a pattern beyond the
// bounds. With an error the size is that of the names of classes in the source, which were parsed.
func (b Bounds) Compile(source string) (*regexp.Regexp, int, error) {
	if known, ok := live.Load(source); ok {
		c := known.(compiled) //nolint:forcetypeassert // nothing else is stored
		if re := c.re.Value(); re != nil && len(source) <= b.Source && c.size <= b.Size {
			return re, c.size, nil
		}
	}
	size, err := b.Measure(source)
	if err != nil {
		return nil, size, err
	}
	built := source
	if size > maxOnePass {
		built = "(?:)" + source // means the same, and to regexp it is not anchored
	}
	re, err := regexp.Compile(built)
	if err != nil {
		return nil, size, fmt.Errorf("pattern is not valid: %w", err)
	}
	own := compiled{weak.Make(re), size}
	live.Store(source, own)
	runtime.AddCleanup(re, func(source string) { live.CompareAndDelete(source, own) }, source)
	return re, size, nil
}

// live has the patterns in use, by their source. Tenants write the same few, such as those of Flux's guides, into thousands of
// Alerts. Each takes kilobytes when it is compiled, and again while it is parsed. A pattern is removed after its last use.
var live sync.Map // of compiled

// compiled is a compiled pattern with its Size.
type compiled struct {
	re   weak.Pointer[regexp.Regexp]
	size int
}

// Measure returns an upper estimate of the number of instructions of a pattern, or the reason for refusing it, with a size as Compile. It
// measures the tree, since compiling a program of the worst size would itself take hundreds of megabytes.
func (b Bounds) Measure(source string) (int, error) {
	if len(source) > b.Source {
		return 0, LimitError(fmt.Sprintf("pattern is longer than %d bytes", b.Source))
	}
	// Within brackets many names become a few ranges, but each is parsed as thousands of characters.
	named := nameSize * classNames(source)
	if named > b.Size {
		return 0, LimitError(fmt.Sprintf("pattern is too expensive: it has more than %d names of classes, such as \\pL", b.Size/nameSize))
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return named, fmt.Errorf("pattern is not valid: %w", err)
	}
	size := max(named, instructions(tree))
	if size > b.Size {
		return named, LimitError(fmt.Sprintf("pattern is too expensive: its repetitions multiply to a program of more than %d instructions", b.Size))
	}
	return size, nil
}

// classNames counts the names of classes of Unicode in a source.
func classNames(source string) (n int) {
	for i := 0; i+1 < len(source); i++ {
		if source[i] != '\\' {
			continue
		}
		if i++; source[i] == 'p' || source[i] == 'P' {
			n++
		}
	}
	return n
}

// instructions estimates the Size of a tree whose repetitions are not expanded yet.
func instructions(tree *syntax.Regexp) int {
	sub := 0
	for _, part := range tree.Sub {
		sub = min(sub+instructions(part), sizeCeiling)
	}
	switch tree.Op {
	case syntax.OpLiteral:
		return max(1, len(tree.Rune))
	case syntax.OpCharClass:
		return 1 + len(tree.Rune)/classRunes
	case syntax.OpCapture, syntax.OpStar:
		return sub + 2
	case syntax.OpPlus, syntax.OpQuest:
		return sub + 1
	case syntax.OpAlternate:
		return sub + len(tree.Sub)
	case syntax.OpConcat:
		return max(1, sub)
	case syntax.OpRepeat:
		if tree.Max < 0 {
			return min(max(1, tree.Min)*sub+2, sizeCeiling)
		}
		return min(tree.Max*sub+tree.Max-tree.Min+1, sizeCeiling)
	default:
		return 1
	}
}
