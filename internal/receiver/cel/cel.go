// Package cel compiles and evaluates the CEL expressions of Receivers, and of Providers. The expressions are a tenant's and the values that
// they read are an outsider's, so the size of a program, the time to compile it, and the work of one evaluation are bounded.
//
// The language is that of Flux: the standard library, the extensions for strings, sets and base64, and optional values. Every
// step is charged before it is done, by the size of its values: comparing two documents, matching a pattern and splitting a
// text cost what they take.
package cel

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/interpreter"
)

// Result is the type that a program gives.
type Result int

// The types of results.
const (
	// Bool is exactly bool: what may be of another type at run time is refused when it is compiled.
	Bool Result = iota
	// Any is every type.
	Any
	// String is exactly string.
	String
)

// want returns what is wrong with the type that an expression gives, nothing if it may.
func (r Result) want(got *cel.Type) error {
	switch {
	case r == Bool && !got.IsExactType(cel.BoolType):
		return fmt.Errorf(`expression gives %s and not bool: compare it, such as with "== true"`, got)
	case r == String && !got.IsExactType(cel.StringType):
		return fmt.Errorf(`expression gives %s and not string: convert it, such as with string(…)`, got)
	default:
		return nil
	}
}

// MaxSource is the length in bytes of the longest source that is compiled.
const MaxSource = 4 << 10

// Program is a compiled expression. It is safe for concurrent use.
type Program struct {
	// root is the last step. It is planned with what all programs share and not by the library's own Program, which would keep a
	// table of all functions, 22 KiB, with each.
	root  interpreter.Interpretable
	reads map[string]bool
}

// Compile returns the program of source, which may read the named variables; each is anything that JSON can say. Its error is one
// line and quotes the source alone.
func Compile(source string, result Result, variables ...string) (*Program, error) {
	if len(source) > MaxSource {
		return nil, fmt.Errorf("expression has %d bytes, more than %d", len(source), MaxSource)
	}
	lang, err := language()
	if err != nil {
		return nil, err
	}
	env, err := lang.with(variables)
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(source)
	if err := issues.Err(); err != nil {
		return nil, errors.New(oneLine(err.Error()))
	}
	if parts, elements := partsOf(parsed.NativeRep().Expr()); parts*(parts+elements) > maxParts*maxParts {
		return nil, fmt.Errorf("expression has too many parts: %d calls, operators, lists and maps, which have %d elements", parts, elements)
	}
	checked, issues := env.Check(parsed)
	if err := issues.Err(); err != nil {
		return nil, errors.New(oneLine(err.Error()))
	}
	if err := result.want(checked.OutputType()); err != nil {
		return nil, err
	}
	root, err := lang.plan(checked.NativeRep())
	if err != nil {
		return nil, errors.New(oneLine(err.Error()))
	}
	p := &Program{root: root, reads: map[string]bool{}}
	for _, reference := range checked.NativeRep().ReferenceMap() {
		p.reads[reference.Name] = true
	}
	return p, nil
}

// Reads reports whether the program's result may depend on the variable.
func (p *Program) Reads(variable string) bool { return p.reads[variable] }

// oneLine makes the compiler's picture of an error, which points into the source from below, one line of it.
func oneLine(message string) string {
	lines := strings.Split(message, "\n")
	kept := lines[:0]
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "|") {
			kept = append(kept, line)
		}
	}
	const most = 3
	if len(kept) > most {
		kept = kept[:most]
	}
	return strings.Join(kept, "; ")
}
