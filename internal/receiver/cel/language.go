package cel

import (
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
)

const (
	// maxDepth bounds the nesting of an expression's parts. The type of a nested list or map is written out at each level: at a hundred
	// levels, the check of 4 KiB takes a second.
	maxDepth = 32
	// maxNesting bounds the nesting of comprehensions; each level multiplies the rounds.
	maxNesting = 4
	// maxParts bounds the calls, operators, lists and maps of an expression without elements; an expression with elements may have fewer. For
	// each part and each element, the checker's work is proportional to the number of parts, since each may be of many types. 4 KiB with 1,900
	// parts would take a third of a second, these take a few hundredths.
	maxParts = 150
)

// partsOf returns the numbers of parts and of elements of an expression whose macros are expanded. Operators on booleans alone are no
// parts.
func partsOf(e ast.Expr) (parts, elements int) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.CallKind:
			switch e.AsCall().FunctionName() {
			case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse:
				return
			}
		case ast.ListKind:
			elements += e.AsList().Size()
		case ast.MapKind:
			elements += 2 * e.AsMap().Size()
		default:
			return
		}
		parts++
	}))
	return parts, elements
}

// dialect has the parts that all programs share: everything but their variables.
type dialect struct {
	env         *cel.Env
	functions   interpreter.Dispatcher
	keys        interpreter.AttributeFactory
	interpreter interpreter.Interpreter
	// envs has env with the variables of programs, by the variables' names. The code chooses the names, so there are few.
	envs sync.Map
}

// with returns the environment of programs that read the variables. They share it, since it is larger than most of them.
func (d *dialect) with(variables []string) (*cel.Env, error) {
	names := strings.Join(variables, " ")
	if env, ok := d.envs.Load(names); ok {
		return env.(*cel.Env), nil
	}
	declared := make([]cel.EnvOption, len(variables))
	for i, name := range variables {
		declared[i] = cel.Variable(name, cel.DynType)
	}
	env, err := d.env.Extend(declared...)
	if err != nil {
		return nil, err
	}
	kept, _ := d.envs.LoadOrStore(names, env)
	return kept.(*cel.Env), nil
}

var language = sync.OnceValues(func() (*dialect, error) {
	env, err := cel.NewEnv(
		cel.HomogeneousAggregateLiterals(),
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		ext.Strings(),
		ext.Sets(),
		ext.Encoders(),
		returning(rangeName, "range_of_value", func(v ref.Val) ref.Val { return v }),
		returning(optionalName, "checked_optional", checkedOptional),
		cel.ParserRecursionLimit(maxDepth),
		cel.ParserExpressionSizeLimit(maxSource),
		cel.ASTValidators(cel.ValidateComprehensionNestingLimit(maxNesting)),
		// These replace the library's own, which write the value twice: a chain of a dozen takes minutes to check.
		cel.Macros(
			cel.ReceiverMacro("optMap", 2, optMap),
			cel.ReceiverMacro("optFlatMap", 2, optFlatMap)),
	)
	if err != nil {
		return nil, fmt.Errorf("the language of expressions: %w", err)
	}
	functions := interpreter.NewDispatcher()
	for _, f := range env.Functions() {
		bindings, err := f.Bindings()
		if err != nil {
			return nil, fmt.Errorf("the language of expressions: %w", err)
		}
		if err := functions.Add(bindings...); err != nil {
			return nil, fmt.Errorf("the language of expressions: %w", err)
		}
	}
	container, provider, adapter := env.Container, env.CELTypeProvider(), env.CELTypeAdapter()
	keys := interpreter.NewAttributeFactory(container, adapter, provider)
	return &dialect{
		env: env, functions: functions, keys: keys,
		interpreter: interpreter.NewInterpreter(functions, container, provider, adapter, keys),
	}, nil
})

// plan returns a checked expression in executable form: metered, and ending with its context.
func (d *dialect) plan(checked *ast.AST) (interpreter.Interpretable, error) {
	return d.interpreter.NewInterpretable(checked, interpreter.InterruptableEval(), interpreter.CustomDecorator(d.meter))
}

// optMap is value.optMap(name, transformed): an optional with the result of transformed for the value, or none.
func optMap(f cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
	return present(f, target, args, func(transformed ast.Expr) ast.Expr { return f.NewCall("optional.of", transformed) })
}

// optFlatMap is optMap for a transformed that is an optional itself.
func optFlatMap(f cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
	return present(f, target, args, func(transformed ast.Expr) ast.Expr { return transformed })
}

// held is the name of an optional value while its content is read. No source can write it.
const held = "@optional"

func present(f cel.MacroExprFactory, target ast.Expr, args []ast.Expr, wrap func(ast.Expr) ast.Expr) (ast.Expr, *cel.Error) {
	if args[0].Kind() != ast.IdentKind {
		return nil, f.NewError(args[0].ID(), "the first argument must be a simple identifier")
	}
	transformed := bind(f, args[0].AsIdent(), f.NewMemberCall("value", f.NewIdent(held)), args[1])
	return bind(f, held, target, f.NewCall(operators.Conditional,
		f.NewMemberCall("hasValue", f.NewIdent(held)),
		wrap(transformed),
		f.NewCall("optional.none"))), nil
}

// bind returns body with name bound to value: a comprehension over nothing, which evaluates value once.
func bind(f cel.MacroExprFactory, name string, value, body ast.Expr) ast.Expr {
	return f.NewComprehension(f.NewList(), "#unused", name, value, f.NewLiteral(types.False), f.NewIdent(name), body)
}
