package cel

import (
	"fmt"

	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// call is a call that is charged by the size of its arguments before it is made.
type call struct {
	interpreter.InterpretableCall
	work func(args []ref.Val) uint64
	run  func(args []ref.Val) ref.Val
}

func (c *call) Eval(vars interpreter.Activation) ref.Val {
	nodes := c.Args()
	args := make([]ref.Val, len(nodes))
	for i, node := range nodes {
		if args[i] = node.Eval(vars); types.IsUnknownOrError(args[i]) {
			return args[i]
		}
	}
	budgetOf(vars).spend(1 + c.work(args))
	return types.LabelErrNode(c.ID(), c.run(args))
}

// meter adds a charge before every step of a program except the rounds of comprehensions, each of which has other steps. The interpreter's
// own counting is not used: it is quadratic in the number of steps, and counts the comparison of two documents, among others, as one step.
// Non-strict calls take no values of any size.
func (d *dialect) meter(node interpreter.Interpretable) (interpreter.Interpretable, error) {
	switch node := node.(type) {
	case constant, nullary, *attribute:
		return node, nil
	case interpreter.InterpretableConst:
		return constant{node}, nil
	case interpreter.InterpretableAttribute:
		return &attribute{InterpretableAttribute: node, keys: d.keys, work: 1}, nil
	case interpreter.InterpretableConstructor:
		return &literal{node, literalWork(node)}, nil
	}
	made, ok := node.(interpreter.InterpretableCall)
	switch {
	case !ok:
		return node, nil
	case len(made.Args()) == 0:
		return nullary{made}, nil
	}
	c := &call{InterpretableCall: made, work: workOf(made.Function())}
	switch made.Function() {
	case operators.Equals:
		c.run = func(args []ref.Val) ref.Val { return types.Equal(args[0], args[1]) }
		return c, nil
	case operators.NotEquals:
		c.run = func(args []ref.Val) ref.Val { return types.Bool(types.Equal(args[0], args[1]) != types.True) }
		return c, nil
	case "matches":
		return c, c.matching()
	case "or", "orValue":
		return &fallback{made, made.Function() == "orValue"}, nil
	}
	f, found := d.functions.FindOverload(made.OverloadID())
	if !found {
		f, found = d.functions.FindOverload(made.Function())
	}
	switch {
	case !found:
		return nil, fmt.Errorf("function %s is not supported", made.Function())
	case f.NonStrict:
		return node, nil
	}
	c.run = func(args []ref.Val) ref.Val { return apply(f, args) }
	switch made.Function() {
	case operators.Add:
		c.run = func(args []ref.Val) ref.Val { return add(f, args) }
	case "join":
		c.run = func(args []ref.Val) ref.Val { return applyToAll(types.StringType, f, args) }
	case "optional.unwrap", "unwrapOpt":
		c.run = func(args []ref.Val) ref.Val { return applyToAll(types.OptionalType, f, args) }
	}
	return c, nil
}

// apply calls the implementation for this number of arguments.
func apply(f *functions.Overload, args []ref.Val) ref.Val {
	switch {
	case f.OperandTrait != 0 && !args[0].Type().HasTrait(f.OperandTrait):
	case len(args) == 1 && f.Unary != nil:
		return f.Unary(args[0])
	case len(args) == 2 && f.Binary != nil:
		return f.Binary(args[0], args[1])
	case f.Function != nil:
		return f.Function(args...)
	}
	return types.NewErr("no such overload")
}

// applyToAll is apply for a list whose elements must all have a type. The library would write an element of another type, whole, into an
// error.
func applyToAll(element ref.Type, f *functions.Overload, args []ref.Val) ref.Val {
	if list, ok := args[0].(traits.Lister); ok {
		for i := range size(list) {
			if list.Get(types.Int(i)).Type() != element {
				return types.NewErr("no such overload")
			}
		}
	}
	return apply(f, args)
}

// add is "+". Two lists become one: the library would chain them, and reading one element would be quadratic in the chain's length.
func add(f *functions.Overload, args []ref.Val) ref.Val {
	if _, grows := args[0].(traits.MutableLister); grows {
		return apply(f, args)
	}
	first, ok := args[0].(traits.Lister)
	second, both := args[1].(traits.Lister)
	if !ok || !both {
		return apply(f, args)
	}
	elements := make([]ref.Val, 0, size(first)+size(second))
	for _, list := range []traits.Lister{first, second} {
		for i := range size(list) {
			elements = append(elements, list.Get(types.Int(i)))
		}
	}
	return types.NewRefValList(types.DefaultTypeAdapter, elements)
}
