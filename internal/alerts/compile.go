package alerts

import (
	"errors"
	"fmt"
	"maps"

	"notifier/internal/patterns"
)

// Bounds on what one Alert may ask of the router. Metadata is bounded because it is copied into every delivery, which has to fit
// into a message on the bus.
const (
	maxPatterns = 256      // of both lists
	maxMetadata = 16 << 10 // bytes of keys and values together
	maxSummary  = 255      // characters; so the API says
)

// MaxSources is how many event sources of one Alert are served, the first ones: more would make its owner's events and edits cost more
// than other tenants' can wait for.
const MaxSources = 1024

// PatternError says which pattern of an Alert does not compile.
type PatternError struct {
	// List is the field, "inclusionList" or "exclusionList", Index the pattern's place in it.
	List  string
	Index int
	Err   error
}

func (e *PatternError) Error() string {
	return fmt.Sprintf("spec.%s[%d]: %v", e.List, e.Index, e.Err)
}

// Unwrap returns what is wrong with the pattern.
func (e *PatternError) Unwrap() error { return e.Err }

// LimitError says what of a spec is beyond a bound, so that the Alert cannot do what it says.
type LimitError string

func (e LimitError) Error() string { return string(e) }

// Compile checks a spec and prepares it for matching. The error joins all that is wrong with it, each fault of a pattern as a
// *PatternError. Sources that name another namespace are no error: they are in Alert.Denied and the others work. Nor is it one to have
// more than MaxSources: the others are ignored.
//
// Of too many patterns to include the first are served, which sends less than the spec asks for, and Alert.Unserved says so. An exclusion
// that is beyond a bound is a LimitError: without it the Alert would send what its author wants kept back, and nobody can take back
// what was sent.
func Compile(spec AlertSpec) (*Alert, error) {
	a := existing(spec)
	errs := []error{a.setSeverity(spec.Severity), a.setSources(spec.Sources)}
	errs = append(errs, a.setPatterns(spec.Inclusion, spec.Exclusion))
	if spec.Provider == "" {
		errs = append(errs, errors.New("spec.providerRef.name is empty"))
	}
	errs = append(errs, a.setMetadata(spec))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	a.share()
	return a, nil
}

// Inert is an Alert that exists but matches nothing, for the Table when a spec does not compile and no earlier one is known:
// what was routed for the Alert before is then still delivered rather than ended as OwnerGone.
func Inert(spec AlertSpec) *Alert {
	a := existing(spec)
	a.suspended, a.inert = true, true
	a.share()
	return a
}

func existing(spec AlertSpec) *Alert {
	return &Alert{
		Namespace: spec.Namespace, Name: spec.Name, UID: spec.UID, Created: spec.Created, Provider: spec.Provider, suspended: spec.Suspend,
		extras: &extras{},
	}
}

func (a *Alert) setSeverity(severity string) error {
	switch severity {
	case "", "info":
	case "error":
		a.errorsOnly = true
	default:
		return errors.New(`spec.eventSeverity is neither "info" nor "error"`)
	}
	return nil
}

func (a *Alert) setSources(sources []Source) error {
	sources = sources[:min(len(sources), MaxSources)]
	var errs []error
	for i, s := range sources {
		switch {
		case s.Kind == "" || s.Name == "":
			errs = append(errs, fmt.Errorf("spec.eventSources[%d]: kind or name is empty", i))
		case s.Namespace != "" && s.Namespace != a.Namespace:
			a.Denied = append(a.Denied, s)
		default:
			// The caller's map may belong to an informer's cache; a nil one must stay nil, since it asks for no labels.
			s.MatchLabels = maps.Clone(s.MatchLabels)
			a.sources = append(a.sources, s)
		}
	}
	return errors.Join(errs...)
}

func (a *Alert) setMetadata(spec AlertSpec) error {
	size := 0
	for k, v := range spec.Metadata {
		size += len(k) + len(v)
	}
	if size > maxMetadata {
		return fmt.Errorf("spec.eventMetadata has %d bytes, more than %d", size, maxMetadata)
	}
	if len([]rune(spec.Summary)) > maxSummary {
		return fmt.Errorf("spec.summary is longer than %d characters", maxSummary)
	}
	a.metadata, a.summary = maps.Clone(spec.Metadata), spec.Summary
	return nil
}

// setPatterns compiles the exclusions first, since all of them count, and then as many inclusions as there is room for.
func (a *Alert) setPatterns(inclusion, exclusion []string) error {
	room := patternRoom{maxPatterns, programs}
	excluding, left, faults := room.compile("exclusionList", exclusion)
	if left > 0 {
		return LimitError(fmt.Sprintf("spec.exclusionList has %d patterns, and only the first %d could be served: so that none is ignored, "+
			"the Alert matches nothing", len(exclusion), len(exclusion)-left))
	}
	for _, f := range faults {
		if _, beyond := errors.AsType[patterns.LimitError](f); beyond {
			return LimitError(f.Error() + "; so that it is not ignored, the Alert matches nothing")
		}
	}
	including, left, more := room.compile("inclusionList", inclusion)
	switch {
	case left > 0 && left == len(inclusion):
		return LimitError("spec.exclusionList leaves no room for spec.inclusionList: the Alert matches nothing")
	case left > 0:
		a.Unserved = fmt.Sprintf("spec.inclusionList has %d patterns, and only the first %d are served: "+
			"join them, or use another Alert", len(inclusion), len(inclusion)-left)
	}
	a.include, a.exclude = including, excluding
	return errors.Join(append(more, faults...)...)
}

// patternRoom is what an Alert may still have compiled.
type patternRoom struct{ patterns, instructions int }

// compile compiles a list as far as there is room, and returns for how many there was none, and the faults of the others. A pattern at
// fault takes the room of one of its length that is not: it was parsed as well.
func (r *patternRoom) compile(list string, expressions []string) (compiled []pattern, left int, faults []error) {
	for i, expr := range expressions {
		if r.patterns == 0 {
			return compiled, len(expressions) - i, faults
		}
		p, err := compilePattern(expr)
		if err != nil {
			p.size = min(2*len(expr), patternBounds.Size)
		}
		switch {
		case p.size > r.instructions:
			return compiled, len(expressions) - i, faults
		case err != nil:
			faults = append(faults, &PatternError{List: list, Index: i, Err: err})
		default:
			compiled = append(compiled, p)
		}
		r.patterns, r.instructions = r.patterns-1, r.instructions-p.size
	}
	return compiled, 0, faults
}
