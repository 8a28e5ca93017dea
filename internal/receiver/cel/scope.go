package cel

import "github.com/google/cel-go/interpreter"

// Names that no source can write. budgetName resolves to an evaluation's budget. The interpreter reads interruptedName in each round of a
// comprehension to learn if it has to end; the evaluation is then ended from here.
const (
	budgetName      = "@budget"
	interruptedName = "#interrupted"
)

// checkEvery is the number of rounds of comprehensions between two checks of the context.
const checkEvery = 32

// scope has the variables of one evaluation, its budget and its end. One goroutine uses it.
type scope struct {
	vars   map[string]any
	budget *Budget
	done   <-chan struct{}
	rounds uint
}

func (s *scope) ResolveName(name string) (any, bool) {
	switch name {
	case budgetName:
		return s.budget, true
	case interruptedName:
		if s.interrupted() { // an error value would be swallowed by "||", and by the comprehensions around
			panic(interpreter.EvalCancelledError{Cause: interpreter.ContextCancelled, Message: "operation interrupted"})
		}
		return nil, false
	}
	value, ok := s.vars[name]
	return value, ok
}

func (s *scope) interrupted() bool {
	if s.rounds++; s.rounds%checkEvery != 0 {
		return false
	}
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (*scope) Parent() interpreter.Activation { return nil }

func budgetOf(vars interpreter.Activation) *Budget {
	found, _ := vars.ResolveName(budgetName)
	return found.(*Budget)
}
