package cel

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
)

// maxTime ends what the work was underestimated of. It is far beyond what maxWork takes, so that a busy machine fails no expression
// for it.
const maxTime = time.Second

// Failure says why an evaluation gave no result. It is one of the constants here and quotes nothing of what was read.
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

// beginnings are how the interpreter's errors of one kind begin. What follows may be data.
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

// Budget is the work that several evaluations may take together, which bounds the memory of their values as well. It is used by one
// goroutine.
type Budget struct{ left uint64 }

// NewBudget returns what one evaluation may take by itself.
func NewBudget() *Budget { return &Budget{left: maxWork} }

// spend ends the evaluation when the work is more than what is left. A panic of this type is how the interpreter ends itself
// over its own limit: an error value could be swallowed by a following "||".
func (b *Budget) spend(work uint64) {
	if work > b.left {
		panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: string(ErrCost)})
	}
	b.left -= work
}

// Eval evaluates the program with a budget of its own. vars has a value for each variable that was declared. The error is a Failure.
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

// Eval evaluates a program with what is left of the budget. The value may be given to another program as part of its variables.
// The error is a Failure.
func (b *Budget) Eval(ctx context.Context, p *Program, vars map[string]any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	return p.run(&scope{vars: vars, budget: b, done: ctx.Done()})
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
