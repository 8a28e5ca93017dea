package expr

import (
	"context"
	"errors"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
)

const (
	// maxCost bounds the work of one evaluation, in steps of the interpreter.
	maxCost = 100_000
	// checkEvery is how many rounds of a comprehension pass between two looks at the context.
	checkEvery = 100
)

// Failure says why an evaluation gave no result. It is a constant and quotes nothing of what the expression read.
type Failure string

func (f Failure) Error() string { return string(f) }

// The failures of an evaluation.
const (
	ErrCost   Failure = "expression takes more work than it may"
	ErrFailed Failure = "expression failed"
)

// Eval evaluates the program. vars has a map for each variable that was declared. The value may be given to another program as
// part of its variables. The error is a Failure.
func (p *Program) Eval(ctx context.Context, vars map[string]any) (any, error) {
	value, _, err := p.program.ContextEval(ctx, vars)
	if err != nil {
		return nil, classify(err)
	}
	return value, nil
}

// Bool is Eval of a program that was compiled for Bool.
func (p *Program) Bool(ctx context.Context, vars map[string]any) (bool, error) {
	value, err := p.Eval(ctx, vars)
	if err != nil {
		return false, err
	}
	truth, ok := value.(types.Bool)
	if !ok {
		return false, ErrFailed
	}
	return bool(truth), nil
}

func classify(err error) Failure {
	if cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err); ok && cancelled.Cause == interpreter.CostLimitExceeded {
		return ErrCost
	}
	return ErrFailed
}
