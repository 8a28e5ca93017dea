package expr

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// Bounds on one pattern. Go matches in time linear in pattern and text, but the pattern's part is the size of its program: a
// short pattern with nested repetitions can cost seconds on a long text.
const (
	maxPattern = 1 << 10 // bytes of a pattern's source
	maxProgram = 2000    // instructions of its program
	// matchesPerUnit is how many instructions times characters are one unit.
	matchesPerUnit = 8
	// compileWork is the work of compiling an instruction.
	compileWork = 50
)

var errPattern = errors.New("pattern is not valid")

// matching makes the call one of "matches". A pattern that is written in the expression is compiled with it.
func (c *call) matching() error {
	nodes := c.Args()
	if written, ok := nodes[len(nodes)-1].(interpreter.InterpretableConst); ok {
		source, ok := written.Value().(types.String)
		if !ok {
			return errPattern
		}
		program, err := programSize(string(source))
		if err != nil {
			return err
		}
		compiled, err := regexp.Compile(string(source))
		if err != nil {
			return errPattern
		}
		c.work = func(args []ref.Val) uint64 { return matchWork(program, args[0]) }
		c.run = func(args []ref.Val) ref.Val { return match(compiled, args[0]) }
		return nil
	}
	c.work = func(args []ref.Val) uint64 {
		source, _ := args[1].(types.String)
		if len(source) > maxPattern {
			return maxWork + 1
		}
		program, err := programSize(string(source))
		if err != nil {
			return text(source)
		}
		return program*compileWork + matchWork(program, args[0])
	}
	c.run = func(args []ref.Val) ref.Val {
		source, ok := args[1].(types.String)
		if !ok {
			return types.NewErr("no such overload")
		}
		if _, err := programSize(string(source)); err != nil {
			return types.WrapErr(err)
		}
		compiled, err := regexp.Compile(string(source))
		if err != nil {
			return types.WrapErr(errPattern)
		}
		return match(compiled, args[0])
	}
	return nil
}

func match(pattern *regexp.Regexp, v ref.Val) ref.Val {
	s, ok := v.(types.String)
	if !ok {
		return types.NewErr("no such overload")
	}
	return types.Bool(pattern.MatchString(string(s)))
}

func matchWork(program uint64, v ref.Val) uint64 { return (1 + text(v)) * program / matchesPerUnit }

// programSize returns how many instructions a pattern compiles to, or the error that it is not valid or too many. It is
// measured on the tree: compiling a program of the worst size would itself take hundreds of megabytes.
func programSize(source string) (uint64, error) {
	if len(source) > maxPattern {
		return 0, fmt.Errorf("pattern has more than %d bytes", maxPattern)
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return 0, errPattern
	}
	size := instructions(tree)
	if size > maxProgram {
		return 0, fmt.Errorf("pattern's repetitions multiply to more than %d instructions", maxProgram)
	}
	return size, nil
}

// instructions estimates from above, up to a little beyond maxProgram.
func instructions(tree *syntax.Regexp) uint64 {
	n := uint64(len(tree.Rune)) + 2
	if tree.Op == syntax.OpCharClass {
		n = 2
	}
	for _, part := range tree.Sub {
		n = min(n+1+instructions(part), maxProgram+1)
	}
	if tree.Op == syntax.OpRepeat {
		n = min(n*uint64(max(tree.Min, tree.Max, 1)), maxProgram+1)
	}
	return n
}
