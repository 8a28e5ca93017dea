package cel

import (
	"errors"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Functions that return their argument. No source can write them. They are called for what the interpreter shows to no decorator.
const (
	// rangeName is called with the range of a comprehension, to charge for it: a comprehension over a map begins with a copy of all keys.
	rangeName = "@range"
	// optionalName is called with the elements and entries with "?" of lists and maps. It refuses any other value than an optional one: the
	// interpreter would write the whole value into an error.
	optionalName = "@optional"
)

// returning declares a function that returns its argument, or what f returns for it.
func returning(name, overload string, f func(ref.Val) ref.Val) cel.EnvOption {
	value := cel.TypeParamType("A")
	return cel.Function(name, cel.Overload(overload, []*cel.Type{value}, value, cel.UnaryBinding(f)))
}

func checkedOptional(v ref.Val) ref.Val {
	if _, ok := v.(*types.Optional); !ok {
		return types.NewErr("no such overload")
	}
	return v
}

var errMessage = errors.New("expression has a message of Protocol Buffers, such as google.protobuf.Struct{…}: use a map, such as {…}")

// rewrite adds calls of rangeName, unless the range is a list in the expression, and of optionalName. It returns an error for a message:
// the conversion of its fields is not charged.
func rewrite(parsed *ast.AST) error {
	r := rewriter{parsed: parsed, factory: ast.NewExprFactory(), id: ast.MaxID(parsed)}
	var err error
	ast.PostOrderVisit(parsed.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			r.comprehension(e)
		case ast.ListKind:
			r.list(e)
		case ast.MapKind:
			r.entries(e)
		case ast.StructKind:
			err = errMessage
		}
	}))
	return err
}

type rewriter struct {
	parsed  *ast.AST
	factory ast.ExprFactory
	id      int64 // the last one
}

// call returns a call of the function with an argument.
func (r *rewriter) call(function string, argument ast.Expr) ast.Expr {
	r.id++
	if at, known := r.parsed.SourceInfo().GetOffsetRange(argument.ID()); known { // of errors
		r.parsed.SourceInfo().SetOffsetRange(r.id, at)
	}
	return r.factory.NewCall(r.id, function, argument)
}

func (r *rewriter) comprehension(e ast.Expr) {
	if c := e.AsComprehension(); c.IterRange().Kind() != ast.ListKind {
		e.SetKindCase(r.factory.NewComprehension(e.ID(), r.call(rangeName, c.IterRange()),
			c.IterVar(), c.AccuVar(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()))
	}
}

func (r *rewriter) list(e ast.Expr) {
	l := e.AsList()
	if len(l.OptionalIndices()) == 0 {
		return
	}
	elements := l.Elements()
	for _, i := range l.OptionalIndices() {
		elements[i] = r.call(optionalName, elements[i])
	}
	e.SetKindCase(r.factory.NewList(e.ID(), elements, l.OptionalIndices()))
}

func (r *rewriter) entries(e ast.Expr) {
	entries := e.AsMap().Entries()
	for i, entry := range entries {
		if m := entry.AsMapEntry(); m.IsOptional() {
			entries[i] = r.factory.NewMapEntry(entry.ID(), m.Key(), r.call(optionalName, m.Value()), true)
		}
	}
	e.SetKindCase(r.factory.NewMap(e.ID(), entries))
}

// ranging is the work of beginning with a value.
func ranging(args []ref.Val) uint64 {
	if _, keys := args[0].(traits.Mapper); keys {
		return size(args[0])
	}
	return 0
}
