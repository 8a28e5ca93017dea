package cel

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// constant is a value in the expression. It is charged too: a list of a thousand constants costs more than one.
type constant struct{ interpreter.InterpretableConst }

func (c constant) Eval(vars interpreter.Activation) ref.Val {
	budgetOf(vars).spend(1)
	return c.InterpretableConst.Eval(vars)
}

// nullary is a call without arguments, such as optional.none().
type nullary struct{ interpreter.InterpretableCall }

func (n nullary) Eval(vars interpreter.Activation) ref.Val {
	budgetOf(vars).spend(1)
	return n.InterpretableCall.Eval(vars)
}

// literal is a list or map in the expression, which every evaluation creates again. It is charged by its memory: comprehensions create
// many, and a result may contain them all.
type literal struct {
	interpreter.InterpretableConstructor
	work uint64
}

func (l *literal) Eval(vars interpreter.Activation) ref.Val {
	budgetOf(vars).spend(l.work)
	return l.InterpretableConstructor.Eval(vars)
}

// attribute is a variable, or the value at the end of a path from a variable or value. It is charged by the length of the path, and as a
// key of a map by the length of the text, which is hashed.
type attribute struct {
	interpreter.InterpretableAttribute
	keys interpreter.AttributeFactory
	work uint64
}

func (a *attribute) AddQualifier(q interpreter.Qualifier) (interpreter.Attribute, error) {
	a.work++
	_, err := a.InterpretableAttribute.AddQualifier(q)
	return a, err
}

func (a *attribute) Eval(vars interpreter.Activation) ref.Val {
	budgetOf(vars).spend(a.work)
	return a.InterpretableAttribute.Eval(vars)
}

func (a *attribute) Resolve(vars interpreter.Activation) (any, error) {
	budgetOf(vars).spend(a.work)
	return a.InterpretableAttribute.Resolve(vars)
}

func (a *attribute) Qualify(vars interpreter.Activation, obj any) (any, error) {
	key, err := a.key(vars)
	if err != nil {
		return nil, err
	}
	return key.Qualify(vars, obj)
}

func (a *attribute) QualifyIfPresent(vars interpreter.Activation, obj any, presenceOnly bool) (any, bool, error) {
	key, err := a.key(vars)
	if err != nil {
		return nil, false, err
	}
	return key.QualifyIfPresent(vars, obj, presenceOnly)
}

// key returns the qualifier for the attribute's value.
func (a *attribute) key(vars interpreter.Activation) (interpreter.Qualifier, error) {
	value, err := a.Resolve(vars)
	if err != nil {
		return nil, err
	}
	budgetOf(vars).spend(depthUpTo(value, maxWork))
	return a.keys.NewQualifier(nil, a.ID(), value, a.IsOptional())
}

// fallback is "or" and "orValue" of an optional value: the alternative is evaluated only if the optional is empty.
type fallback struct {
	interpreter.InterpretableCall
	unwrap bool
}

func (f *fallback) Eval(vars interpreter.Activation) ref.Val {
	budgetOf(vars).spend(1)
	value := f.Args()[0].Eval(vars)
	optional, ok := value.(*types.Optional)
	switch {
	case !ok:
		return value // an error, or as with the library a value that is not optional
	case !optional.HasValue():
		return f.Args()[1].Eval(vars)
	case f.unwrap:
		return optional.GetValue()
	}
	return optional
}
