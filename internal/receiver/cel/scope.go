package cel

import "github.com/google/cel-go/interpreter"

// Names that no source can write: under purseName an evaluation's purse is found, under interruptedName the interpreter asks in each
// round of a comprehension whether it has to end.
const (
	purseName       = "@purse"
	interruptedName = "#interrupted"
)

// checkEvery is how many rounds of comprehensions pass between two looks at the context.
const checkEvery = 32

// scope are the variables of one evaluation, its purse and its end. One goroutine uses it.
type scope struct {
	vars   map[string]any
	purse  *purse
	done   <-chan struct{}
	rounds uint
}

func (s *scope) ResolveName(name string) (any, bool) {
	switch name {
	case purseName:
		return s.purse, true
	case interruptedName:
		return true, s.interrupted()
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

func purseOf(vars interpreter.Activation) *purse {
	found, _ := vars.ResolveName(purseName)
	return found.(*purse)
}
