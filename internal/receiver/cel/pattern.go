package cel

import (
	"errors"
	"regexp"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"notifier/internal/patterns"
)

const (
	// matchesPerUnit is the number of instructions times characters in one unit.
	matchesPerUnit = 8
	// compileWork is the work of compiling an instruction.
	compileWork = 50
)

// bounds limit a pattern. A pattern of the webhook is compiled in the webhook's time.
var bounds = patterns.Bounds{Source: 1 << 10, Size: 2000}

// errPattern stands for any fault of a pattern from the data, and quotes nothing of it.
var errPattern = errors.New("pattern is not valid")

// matching makes the call a call of "matches". A pattern in the expression is compiled with it.
func (c *call) matching() error {
	nodes := c.Args()
	if written, ok := nodes[len(nodes)-1].(interpreter.InterpretableConst); ok {
		source, ok := written.Value().(types.String)
		if !ok {
			return errPattern
		}
		compiled, size, err := bounds.Compile(string(source))
		if err != nil {
			return err
		}
		c.work = func(args []ref.Val) uint64 { return matchWork(size, args[0]) }
		c.run = func(args []ref.Val) ref.Val { return match(compiled, args[0]) }
		return nil
	}
	c.work = func(args []ref.Val) uint64 {
		source, _ := args[1].(types.String)
		if len(source) > bounds.Source {
			return maxWork + 1
		}
		size, err := bounds.Measure(string(source))
		if err != nil {
			return max(text(source), uint64(size)) * compileWork // it was parsed
		}
		return uint64(size)*compileWork + matchWork(size, args[0])
	}
	c.run = func(args []ref.Val) ref.Val {
		source, ok := args[1].(types.String)
		if !ok {
			return types.NewErr("no such overload")
		}
		compiled, _, err := bounds.Compile(string(source))
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

func matchWork(size int, v ref.Val) uint64 { return (1 + text(v)) * uint64(size) / matchesPerUnit }
