package cel

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
)

// maxTime ends an evaluation whose work was underestimated. It is far longer than maxWork takes, so that no expression fails because of a
// busy machine.
const maxTime = time.Second

// Failure is the reason why an evaluation gave no result. It is one of the constants here and quotes none of the data.
type Failure string

func (f Failure) Error() string { return string(f) }

// The failures of an evaluation.
const (
	ErrCost        Failure = "takes more work than an expression may"
	ErrInterrupted Failure = "was interrupted"
	ErrNoKey       Failure = "reads a key that is not there: test it with has()"
	ErrIndex       Failure = "reads beyond the end of a list"
	ErrType        Failure = "applies a function to a value of another type"
	ErrArithmetic  Failure = "divides by zero or leaves the range of its numbers"
	ErrFailed      Failure = "cannot be evaluated"
)

// beginnings are the prefixes of the interpreter's errors, by kind. The rest of an error may be data.
var beginnings = []struct {
	text    string
	failure Failure
}{
	{"no such key", ErrNoKey},
	{"no such attribute", ErrNoKey},
	{"index ", ErrIndex},
	{"no such overload", ErrType},
	{"unsupported index type", ErrType},
	{"division by zero", ErrArithmetic},
	{"modulus by zero", ErrArithmetic},
	{"integer overflow", ErrArithmetic},
	{"unsigned integer overflow", ErrArithmetic},
	{"range error", ErrArithmetic},
	{"operation interrupted", ErrInterrupted},
}

// Budget is the work that several evaluations may use together, which bounds the memory of their values as well. It is used by one
// goroutine.
type Budget struct{ left uint64 }

// NewBudget returns the budget of a single evaluation.
func NewBudget() *Budget { return &Budget{left: maxWork} }

// spend ends the evaluation if work is more than the rest of the budget. It panics with this type as the interpreter does over its own
// limit: a following "||" could swallow an error value.
func (b *Budget) spend(work uint64) {
	if work > b.left {
		panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: string(ErrCost)})
	}
	b.left -= work
}

// Eval evaluates the program with a budget of its own. vars has a value for each declared variable. The error is a Failure.
func (p *Program) Eval(ctx context.Context, vars map[string]any) (any, error) {
	return NewBudget().Eval(ctx, p, vars)
}

// Bool is Eval of a program that was compiled for Bool.
func (p *Program) Bool(ctx context.Context, vars map[string]any) (bool, error) {
	return NewBudget().Bool(ctx, p, vars)
}

// String is Eval of a program that was compiled for String.
func (p *Program) String(ctx context.Context, vars map[string]any) (string, error) {
	value, err := p.Eval(ctx, vars)
	if err != nil {
		return "", err
	}
	text, ok := value.(types.String)
	if !ok {
		return "", ErrType
	}
	return string(text), nil
}

// Eval evaluates a program with the rest of the budget. The value may be part of another program's variables. Of an optional value it is
// the value in it, null for none, as Flux gives it to the expressions that follow. The error is a Failure.
func (b *Budget) Eval(ctx context.Context, p *Program, vars map[string]any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	value, err := p.run(&scope{vars: vars, budget: b, done: ctx.Done()})
	for optional, ok := value.(*types.Optional); ok; optional, ok = value.(*types.Optional) {
		if !optional.HasValue() {
			return types.NullValue, nil
		}
		value = optional.GetValue()
	}
	return value, err
}

// run evaluates the program. An evaluation ends itself with a panic when its budget is empty; any other panic is a fault of the
// interpreter, which must not end the process.
func (p *Program) run(s *scope) (value any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			value, err = nil, ErrFailed
			if cancelled, ok := cause.(interpreter.EvalCancelledError); ok {
				value, err = nil, classify(cancelled)
			}
		}
	}()
	result := p.root.Eval(s)
	if failed, ok := result.(*types.Err); ok {
		return nil, classify(failed)
	}
	return result, nil
}

// Bool is Eval of a program that was compiled for Bool.
func (b *Budget) Bool(ctx context.Context, p *Program, vars map[string]any) (bool, error) {
	value, err := b.Eval(ctx, p, vars)
	if err != nil {
		return false, err
	}
	truth, ok := value.(types.Bool)
	if !ok {
		return false, ErrType
	}
	return bool(truth), nil
}

func classify(err error) Failure {
	if cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err); ok && cancelled.Cause == interpreter.CostLimitExceeded {
		return ErrCost
	}
	message := err.Error()
	for _, b := range beginnings {
		if strings.HasPrefix(message, b.text) {
			return b.failure
		}
	}
	return ErrFailed
}
