// Package expr compiles and evaluates the CEL expressions of Receivers. The expressions are a tenant's and the values that
// they read are an outsider's, so both the work of one evaluation and the size of a program are bounded.
package expr

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

// Result is the type that a program gives.
type Result int

// The types of results.
const (
	// Bool is exactly bool: what may be of another type at run time is refused when it is compiled.
	Bool Result = iota
	// Any is every type.
	Any
)

// MaxSource is the length in bytes of the longest source that is compiled.
const MaxSource = 4 << 10

// Program is a compiled expression. It is safe for concurrent use.
type Program struct {
	program cel.Program
	reads   map[string]bool
}

// Compile returns the program of source, which may read the named variables; each is a map from string to anything. Its error
// quotes the source alone.
func Compile(source string, result Result, variables ...string) (*Program, error) {
	if len(source) > MaxSource {
		return nil, fmt.Errorf("expression has %d bytes, more than %d", len(source), MaxSource)
	}
	env, err := environment(variables)
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(source)
	if err := issues.Err(); err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if got := checked.OutputType(); result == Bool && !got.IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("expression gives %s and not bool; compare it, as in \"… == true\"", got)
	}
	program, err := env.Program(checked, cel.CostLimit(maxCost), cel.InterruptCheckFrequency(checkEvery))
	if err != nil {
		return nil, err
	}
	p := &Program{program: program, reads: map[string]bool{}}
	for _, reference := range checked.NativeRep().ReferenceMap() {
		p.reads[reference.Name] = true
	}
	return p, nil
}

// Reads reports whether the program's result may depend on the variable.
func (p *Program) Reads(variable string) bool { return p.reads[variable] }

// language is the environment of every program but for its variables: that of Flux.
var language = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.HomogeneousAggregateLiterals(),
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		ext.Strings(),
		ext.Sets(),
		ext.Encoders(),
	)
})

func environment(variables []string) (*cel.Env, error) {
	base, err := language()
	if err != nil {
		return nil, err
	}
	declared := make([]cel.EnvOption, len(variables))
	for i, name := range variables {
		declared[i] = cel.Variable(name, cel.MapType(cel.StringType, cel.DynType))
	}
	return base.Extend(declared...)
}
