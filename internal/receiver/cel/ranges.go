package cel

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// rangeName is a function that returns its argument. No source can write it. It is called with the range of a comprehension, to charge for it:
// a comprehension over a map begins with a copy of all keys, and the interpreter shows its parts to no decorator.
const rangeName = "@range"

// rangeFunction declares rangeName.
func rangeFunction() cel.EnvOption {
	value := cel.TypeParamType("A")
	return cel.Function(rangeName, cel.Overload("range_of_value", []*cel.Type{value}, value,
		cel.UnaryBinding(func(v ref.Val) ref.Val { return v })))
}

// meterRanges calls rangeName with the range of each comprehension, unless that is a list in the expression.
func meterRanges(parsed *ast.AST) {
	id, factory := ast.MaxID(parsed), ast.NewExprFactory()
	ast.PostOrderVisit(parsed.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.ComprehensionKind {
			return
		}
		c := e.AsComprehension()
		over := c.IterRange()
		if over.Kind() == ast.ListKind {
			return
		}
		id++
		if at, known := parsed.SourceInfo().GetOffsetRange(over.ID()); known { // of errors
			parsed.SourceInfo().SetOffsetRange(id, at)
		}
		e.SetKindCase(factory.NewComprehension(e.ID(), factory.NewCall(id, rangeName, over),
			c.IterVar(), c.AccuVar(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()))
	}))
}

// ranging is the work of beginning with a value.
func ranging(args []ref.Val) uint64 {
	if _, keys := args[0].(traits.Mapper); keys {
		return size(args[0])
	}
	return 0
}
