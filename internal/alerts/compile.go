package alerts

import (
	"errors"
	"fmt"
	"maps"
)

// Bounds on what one Alert may ask of the router. Metadata is bounded because it is copied into every delivery, which has to fit
// into a message on the bus.
const (
	maxPatterns = 32
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

// Compile checks a spec and prepares it for matching. The error joins all that is wrong with it, each fault of a pattern as a
// *PatternError. Sources that name another namespace are no error: they are in Alert.Denied and the others work. Nor is it one to have
// more than MaxSources: the others are ignored.
func Compile(spec AlertSpec) (*Alert, error) {
	a := existing(spec)
	errs := []error{a.setSeverity(spec.Severity), a.setSources(spec.Sources)}
	if n := len(spec.Inclusion) + len(spec.Exclusion); n > maxPatterns {
		errs = append(errs, fmt.Errorf("spec.inclusionList and spec.exclusionList have %d patterns, more than %d", n, maxPatterns))
	} else {
		var err error
		a.include, err = compileAll("inclusionList", spec.Inclusion)
		errs = append(errs, err)
		a.exclude, err = compileAll("exclusionList", spec.Exclusion)
		errs = append(errs, err)
	}
	if spec.Provider == "" {
		errs = append(errs, errors.New("spec.providerRef.name is empty"))
	}
	errs = append(errs, a.setMetadata(spec))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return a, nil
}

// Inert is an Alert that exists but matches nothing, for the Table when a spec does not compile and no earlier one is known:
// what was routed for the Alert before is then still delivered rather than ended as OwnerGone.
func Inert(spec AlertSpec) *Alert {
	a := existing(spec)
	a.suspended = true
	return a
}

func existing(spec AlertSpec) *Alert {
	return &Alert{
		Namespace: spec.Namespace, Name: spec.Name, UID: spec.UID, Created: spec.Created, Provider: spec.Provider, suspended: spec.Suspend,
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

func compileAll(list string, expressions []string) ([]pattern, error) {
	var errs []error
	patterns := make([]pattern, 0, len(expressions))
	for i, expr := range expressions {
		p, err := compilePattern(expr)
		if err != nil {
			errs = append(errs, &PatternError{List: list, Index: i, Err: err})
			continue
		}
		patterns = append(patterns, p)
	}
	return patterns, errors.Join(errs...)
}
