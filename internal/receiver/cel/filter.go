package cel

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"notifier/internal/event"
	"notifier/internal/receiver/limit"
)

// FilterObjects is the part of the watchers' cache that filters use.
type FilterObjects interface {
	// Objects returns the objects of a namespace that match a target, by name or by selector: their names and their cached state in the form
	// of their JSON, which must not be changed. It reports false for a kind that is not watched.
	Objects(namespace string, target event.Target) (objects iter.Seq2[string, map[string]any], watched bool)
	// Pending reports whether the objects of a kind are still being read, so that the caller has to wait.
	Pending(kind string) bool
}

// Bounds on the filters of one webhook, in addition to those of each evaluation.
const (
	// maxFiltered bounds the objects that filters read, of all targets together.
	maxFiltered = 1000
)

// The variables of a filter.
const (
	varDocument = "req"
	varObject   = "res"
	varClaims   = "claims"
)

// The failures of a filter, in addition to those of its expression.
const (
	errNotWatched  Failure = "reads res, and objects of this kind are not watched"
	errManyObjects Failure = "reads res of more than 1000 objects"
	errSlow        Failure = "was not decided in time, together with the others"
	errNotJSON     Failure = "reads req, and the body is not the JSON that its sender says"
	errManyValues  Failure = "reads req, and the body has too many values"
)

// ErrPending says that the objects which filters read are still being read from the API server. It is no failure of the filters.
var ErrPending = errors.New("objects of a kind are still being read")

// Condition is a compiled filter.
type Condition struct {
	field   string
	program *Program
}

// NewCondition compiles the filter in a field of a Receiver's spec. claims says that the Receiver's type has claims. The error is one line
// and quotes only the filter.
func NewCondition(field, source string, claims bool) (*Condition, error) {
	variables := []string{varDocument, varObject}
	if claims {
		variables = append(variables, varClaims)
	}
	program, err := Compile(source, Bool, variables...)
	if err != nil {
		return nil, err
	}
	return &Condition{field, program}, nil
}

// Rule is one of a Receiver's resources: its trigger, complete but for Accepted, and all its conditions.
type Rule struct {
	Trigger event.Trigger
	// ServiceAccount is the account in the trigger's key.
	ServiceAccount string
	Conditions     []*Condition
}

// Filters is the Filter of one Receiver. A rule whose conditions do not read "res" is decided as a whole, and selects its trigger. A rule
// whose conditions read it is decided for each object in the watchers' cache, and selects a trigger by the object's name.
type Filters struct {
	namespace string
	rules     []Rule
	objects   FilterObjects
	share     *limit.Share
	readsBody bool
}

// NewFilters returns the Filter of a Receiver with at least one condition. All rules are of its namespace.
func NewFilters(namespace string, rules []Rule, objects FilterObjects, share *limit.Share) *Filters {
	f := &Filters{namespace: namespace, rules: rules, objects: objects, share: share}
	for _, r := range rules {
		for _, c := range r.Conditions {
			f.readsBody = f.readsBody || c.program.Reads(varDocument)
		}
	}
	return f
}

// Triggers returns those of all rules. The results of Select are in their namespaces.
func (f *Filters) Triggers() []event.Trigger {
	all := make([]event.Trigger, len(f.rules))
	for i, r := range f.rules {
		all[i] = r.Trigger
	}
	return all
}

// ReadsBody implements Filter.
func (f *Filters) ReadsBody() bool { return f.readsBody }

// Select implements Filter. The error is limit.ErrNoTurn, ErrPending or a *FilterFailures.
func (f *Filters) Select(ctx context.Context, claims, document []byte) ([]event.Trigger, error) {
	if !f.readsBody {
		document = nil
	}
	size, unread := decodedSize(document), error(nil)
	if size > maxDecoded {
		unread, document, size = errManyValues, nil, 0
	}
	turn, ok := f.share.Enter(ctx, f.namespace, size)
	if !ok {
		return nil, limit.ErrNoTurn
	}
	defer turn.Leave()
	req, err := decodeDocument(document)
	if err != nil {
		unread = err
	}
	proven, _ := decodeDocument(claims) // JSON, as their verifier has found
	var s filtering
	// Filters go on when the sender hangs up: its webhook is authentic, and is decided like any other.
	limit.InTime(context.WithoutCancel(ctx), func(ctx context.Context) {
		vars := map[string]any{varDocument: req, varClaims: proven, varObject: map[string]any{}}
		s = filtering{Filters: f, vars: vars, unread: unread, decided: map[*Condition]decision{}, chosen: map[string]bool{}}
		for i := range f.rules {
			s.selectTriggers(ctx, &f.rules[i])
		}
	})
	if s.pending {
		return nil, ErrPending
	}
	if s.failures.Rules > 0 {
		return s.triggers, &s.failures
	}
	return s.triggers, nil
}

// FilterFailures names the filters that failed for one webhook.
type FilterFailures struct {
	// Rules is the number of the Receiver's resources of which all, or some objects, were left out.
	Rules int
	texts []string
}

// maxFailureTexts bounds the failures that are shown of one webhook.
const maxFailureTexts = 3

// Error names fields of the spec and quotes nothing of the webhook.
func (f *FilterFailures) Error() string {
	text := strings.Join(f.texts, "; ")
	if more := f.Rules - len(f.texts); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// filtering is the evaluation of all rules for one webhook.
type filtering struct {
	*Filters
	vars map[string]any
	// unread is the reason why vars lacks the webhook's document, nil otherwise.
	unread   error
	decided  map[*Condition]decision // of the conditions that read no object
	looked   int                     // number of objects
	pending  bool                    // whether objects that decide are not read yet
	chosen   map[string]bool         // by key
	triggers []event.Trigger
	failures FilterFailures
}

type decision struct {
	passed bool
	err    error
}

// selectTriggers selects the triggers of a rule.
func (s *filtering) selectTriggers(ctx context.Context, r *Rule) {
	var ofObjects []*Condition
	for _, c := range r.Conditions {
		if c.program.Reads(varObject) {
			ofObjects = append(ofObjects, c)
			continue
		}
		d, known := s.decided[c]
		if !known {
			d.passed, d.err = s.evaluate(ctx, c)
			s.decided[c] = d
		}
		switch {
		case d.err != nil:
			s.fail(c, d.err)
			return
		case !d.passed:
			return
		}
	}
	if len(ofObjects) == 0 {
		s.choose(r.Trigger)
		return
	}
	s.selectObjects(ctx, r, ofObjects)
}

// selectObjects selects the objects of a rule for which the conditions are true. A failure for one object does not affect the others.
func (s *filtering) selectObjects(ctx context.Context, r *Rule, conditions []*Condition) {
	objects, watched := s.objects.Objects(s.namespace, r.Trigger.Target)
	if !watched {
		if s.pending = s.pending || s.objects.Pending(r.Trigger.Target.Kind); !s.pending {
			s.fail(conditions[0], errNotWatched)
		}
		return
	}
	failed, cause := (*Condition)(nil), error(nil)
	for name, object := range objects {
		if s.looked++; s.looked > maxFiltered {
			failed, cause = conditions[0], errManyObjects
			break
		}
		s.vars[varObject] = object
		c, err := s.firstFalse(ctx, conditions)
		if err != nil && failed == nil {
			failed, cause = c, err
		}
		if errors.Is(err, errSlow) {
			break
		}
		if c == nil {
			t := r.Trigger
			if t.Target.Selects() {
				t.Target = t.Target.Named(name)
				t.Key = event.TargetKey(t.Target, r.ServiceAccount)
			}
			s.choose(t)
		}
	}
	if failed != nil {
		s.fail(failed, cause)
	}
}

// firstFalse returns the first of the conditions that is not true, with the error if it failed. It returns nil if all are true.
func (s *filtering) firstFalse(ctx context.Context, conditions []*Condition) (*Condition, error) {
	for _, c := range conditions {
		if passed, err := s.evaluate(ctx, c); !passed {
			return c, err
		}
	}
	return nil, nil
}

func (s *filtering) evaluate(ctx context.Context, c *Condition) (bool, error) {
	if s.unread != nil && c.program.Reads(varDocument) {
		return false, s.unread
	}
	passed, err := c.program.Bool(ctx, s.vars)
	if ctx.Err() != nil {
		return false, errSlow
	}
	return passed, err
}

func (s *filtering) choose(t event.Trigger) {
	if !s.chosen[t.Key] {
		s.chosen[t.Key] = true
		s.triggers = append(s.triggers, t)
	}
}

// fail notes the failure of a rule.
func (s *filtering) fail(c *Condition, err error) {
	s.failures.Rules++
	if len(s.failures.texts) < maxFailureTexts {
		s.failures.texts = append(s.failures.texts, c.field+" "+err.Error())
	}
}
