// Package cel compiles and evaluates the CEL expressions of Receivers, and of Providers. Tenants write the expressions and outsiders the
// values, so the size of a program, the time to compile it, and the work of one evaluation are bounded.
//
// The language is that of Flux: the standard library, the extensions for strings, sets and base64, and optional values. Every step is
// charged before it is done, by the size of its values: to compare two documents, match a pattern or split a text costs its real work.
package cel

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/interpreter"
)

// Result is the type of a program's result.
type Result int

// The types of results.
const (
	// Bool is exactly bool: an expression that may have another type at run time does not compile.
	Bool Result = iota
	// Any is every type.
	Any
	// String is exactly string.
	String
)

// want returns an error if the type of an expression is not allowed, else nil.
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

// maxSource is the length in bytes of the longest source that Compile accepts.
const maxSource = 4 << 10

// Program is a compiled expression. It is safe for concurrent use.
type Program struct {
	// root is the last step. It is planned with the parts that all programs share. The library's own Program would keep a table of all
	// functions, 22 KiB, with each.
	root  interpreter.Interpretable
	reads map[string]bool
}

// Compile returns the program of source, which may read the named variables; each has any JSON value. The error is one line and quotes only
// the source.
func Compile(source string, result Result, variables ...string) (p *Program, err error) {
	defer func() {
		if recover() != nil { // the library's check of a "?" before a value of any type panics
			p, err = nil, errors.New(`expression makes the compiler fail: an element or entry with "?" needs an optional value, such as [?req.?ref]`)
		}
	}()
	if len(source) > maxSource {
		return nil, fmt.Errorf("expression has more than %d bytes", maxSource)
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
	if err := rewrite(parsed.NativeRep()); err != nil {
		return nil, err
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
	p = &Program{root: root, reads: map[string]bool{}}
	for _, reference := range checked.NativeRep().ReferenceMap() {
		p.reads[reference.Name] = true
	}
	return p, nil
}

// Reads reports whether the program's result may depend on the variable.
func (p *Program) Reads(variable string) bool { return p.reads[variable] }

// oneLine turns the compiler's drawing of an error, which points into the source from below, into one line.
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
