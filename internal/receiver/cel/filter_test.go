package cel

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
	"notifier/internal/receiver/limit"
)

// objectCache stands for a watchers' cache: the labels of objects by name, in order, of the one kind that is watched.
type objectCache struct {
	names  []string
	labels map[string]string // by name, the label "tier"
	looked int
}

// Pending is true of Buckets.
func (*objectCache) Pending(kind string) bool { return kind == "Bucket" }

func (c *objectCache) Objects(namespace string, target event.Target) (objects iter.Seq2[string, map[string]any], watched bool) {
	if target.Kind != "GitRepository" || namespace != "team-a" {
		return nil, false
	}
	return func(yield func(string, map[string]any) bool) {
		for _, name := range c.names {
			if !target.Selects() && name != target.Name {
				continue
			}
			c.looked++
			metadata := map[string]any{"name": name}
			if tier, ok := c.labels[name]; ok {
				metadata["labels"] = map[string]string{"tier": tier}
			}
			if !yield(name, map[string]any{"kind": target.Kind, "metadata": metadata}) {
				return
			}
		}
	}, true
}

// rule is an entry of a Receiver's resources with its own filter, empty for none, and spec.resourceFilter.
type rule struct{ kind, name, filter string }

func newFilters(t testing.TB, objects FilterObjects, all string, rules ...rule) *Filters {
	t.Helper()
	condition := func(field, source string) *Condition {
		c, err := NewCondition(field, source, true)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		return c
	}
	var common []*Condition
	if all != "" {
		common = append(common, condition("spec.resourceFilter", all))
	}
	compiled := make([]Rule, 0, len(rules))
	for i, r := range rules {
		target := event.Target{APIVersion: "source.toolkit.fluxcd.io/v1", Kind: r.kind, Name: r.name}
		if r.kind == "" {
			target.Kind = "GitRepository"
		}
		one := Rule{ServiceAccount: "deployer", Conditions: common, Trigger: event.Trigger{
			Namespace: "team-a", Receiver: "app", ReceiverUID: "uid", Target: target, Key: event.TargetKey(target, "deployer"),
		}}
		if r.filter != "" {
			one.Conditions = append(one.Conditions[:len(common):len(common)], condition(fmt.Sprintf("spec.resources[%d].filter", i), r.filter))
		}
		compiled = append(compiled, one)
	}
	return NewFilters("team-a", compiled, objects, limit.NewShare())
}

// chosen returns the names of the triggers' targets, and checks that their keys are those of their targets.
func chosen(t testing.TB, triggers []event.Trigger) string {
	t.Helper()
	names := make([]string, len(triggers))
	for i, tr := range triggers {
		names[i] = tr.Target.Name
		if tr.Key != event.TargetKey(tr.Target, "deployer") || tr.Namespace != "team-a" || tr.Receiver != "app" || tr.ReceiverUID != "uid" {
			t.Errorf("trigger %+v", tr)
		}
	}
	return strings.Join(names, " ")
}

// Fails when either of the two filters does not count, or when a filter that reads no object is decided for each object. Also fails when a
// selector stays one although its objects are decided, or when one failure ends the rest.
func TestAFilterDecidesWhatIsTriggered(t *testing.T) {
	for name, tc := range map[string]struct {
		all    string
		rules  []rule
		body   string
		claims string
		want   string
		fails  string
	}{
		"true for all":      {all: `true`, rules: []rule{{name: "a"}, {name: "*"}}, want: "a *"},
		"false for all":     {all: `false`, rules: []rule{{name: "a", filter: `true`}, {name: "*"}}},
		"both must be true": {all: `true`, rules: []rule{{name: "a", filter: `false`}, {name: "b", filter: `true`}, {name: "c"}}, want: "b c"},
		"the body":          {all: `req.ref == "main"`, rules: []rule{{name: "*"}}, body: `{"ref":"main"}`, want: "*"},
		"a list as body":    {all: `req[0].ref == "main" && req.size() == 2`, rules: []rule{{name: "a"}}, body: `[{"ref":"main"},1]`, want: "a"},
		"no body":           {all: `!has(req.ref)`, rules: []rule{{name: "a"}}, want: "a"},
		"claims":            {all: `claims.repository == "x"`, rules: []rule{{name: "a"}}, claims: `{"repository": "x"}`, want: "a"},
		"no claims":         {all: `!has(claims.repository)`, rules: []rule{{name: "a"}}, want: "a"},
		"an object":         {rules: []rule{{name: "a", filter: `res.metadata.name == "a" && res.kind == "GitRepository"`}}, want: "a"},
		"an object that there is not": {
			all: `res.metadata.name == "x"`, rules: []rule{{name: "x"}, {name: "a"}},
		},
		"each of the selected": {all: `res.metadata.labels.tier == "1"`, rules: []rule{{name: "*"}}, want: "a c"},
		"by body and object": {
			all: `req.tiers.exists(t, t == res.metadata.labels.tier)`, rules: []rule{{name: "*"}}, body: `{"tiers":["2","9"]}`, want: "b",
		},
		"both filters of an object": {
			all: `res.metadata.labels.tier == "1"`, rules: []rule{{name: "*", filter: `res.metadata.name != "a"`}, {name: "a"}}, want: "c a",
		},
		"an object chosen twice": {all: `res.metadata.name == "a"`, rules: []rule{{name: "*"}, {name: "a"}, {name: "*"}}, want: "a"},
		"one fails": {
			rules: []rule{{name: "a", filter: `req.absent == 1`}, {name: "b", filter: `req.n == 1.0`}}, body: `{"n":1,"secret":"hunter2"}`, want: "b",
			fails: "1: spec.resources[0].filter reads a key that is not there: test it with has()",
		},
		"one object fails": {
			all: `(res.metadata.name == "b" ? req.absent : req.n) == 1`, rules: []rule{{name: "*"}}, body: `{"n":1}`, want: "a c",
			fails: "1: spec.resourceFilter reads a key that is not there: test it with has()",
		},
		"one filter of all fails": {
			all: `req.absent == 1`, rules: []rule{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}, {name: "*"}},
			fails: "5: " + strings.Repeat("spec.resourceFilter reads a key that is not there: test it with has(); ", 3) + "and 2 more",
		},
		"a kind that is not watched": {
			rules: []rule{{kind: "Secret", name: "a", filter: `res.metadata.name == "a"`}, {name: "a", filter: `res.metadata.name == "a"`}, {kind: "Secret", name: "b"}},
			want:  "a b", fails: "1: spec.resources[0].filter reads res, and objects of this kind are not watched",
		},
		"decided without the object": {
			all: `res.metadata.name == "a"`, rules: []rule{{kind: "Secret", name: "a", filter: `req.go == true`}}, body: `{"go":false}`,
		},
		"no JSON, though it says so": {
			rules: []rule{{name: "a", filter: `req.n == 1`}, {name: "b", filter: `res.metadata.name == "b"`}, {name: "c"}}, body: `{"n":1} hunter2`,
			want: "b c", fails: "1: spec.resources[0].filter reads req, and the body is not the JSON that its sender says",
		},
		"too many values": {
			all: `req.size() > 0`, rules: []rule{{name: "a"}}, body: "[" + strings.Repeat(`{"":0},`, 100_000) + "0]",
			fails: "1: spec.resourceFilter reads req, and the body has too many values",
		},
		"work without end": {
			rules: []rule{{name: "a", filter: `req.all(a, req.all(b, req.all(c, c > 0)))`}, {name: "b"}}, body: "[" + strings.Repeat(`1,`, 1000) + "1]",
			want: "b", fails: "1: spec.resources[0].filter takes more work than an expression may",
		},
	} {
		// The time in a bubble does not pass during an evaluation, so that a busy machine cannot end it.
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				objects := &objectCache{names: []string{"a", "b", "c"}, labels: map[string]string{"a": "1", "b": "2", "c": "1"}}
				f := newFilters(t, objects, tc.all, tc.rules...)
				triggers, err := f.Select(t.Context(), []byte(tc.claims), []byte(tc.body))
				if got := chosen(t, triggers); got != tc.want {
					t.Errorf("triggered %q, want %q", got, tc.want)
				}
				got := ""
				if failures, ok := err.(*FilterFailures); ok { //nolint:errorlint // it is what Select returns
					got = fmt.Sprintf("%d: %v", failures.Rules, failures)
				}
				if diff := cmp.Diff(tc.fails, got); diff != "" {
					t.Errorf("failures (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Fails when the body is kept for filters that do not read it, or is not kept for a filter that does.
func TestABodyIsKeptOnlyForFiltersThatReadIt(t *testing.T) {
	for source, want := range map[string]bool{`true`: false, `res.metadata.name == "req"`: false, `req.x == 1`: true, `[1].all(a, has(req.x))`: true} {
		if got := newFilters(t, &objectCache{}, `true`, rule{name: "a", filter: source}).ReadsBody(); got != want {
			t.Errorf("%s: %v", source, got)
		}
	}
}

// Fails when the objects have no bound, or one bound per target.
func TestTheObjectsThatAWebhookLooksAtAreBounded(t *testing.T) {
	objects := &objectCache{}
	for i := range 3 * maxFiltered {
		objects.names = append(objects.names, fmt.Sprintf("o-%05d", i))
	}
	f := newFilters(t, objects, "", rule{name: "*", filter: `res.metadata.name.endsWith("0")`}, rule{name: "o-00001", filter: `has(res.kind)`}, rule{name: "*"})
	triggers, err := f.Select(t.Context(), nil, nil)
	if len(triggers) != maxFiltered/10+1 || triggers[0].Target.Name != "o-00000" {
		t.Errorf("%d triggers", len(triggers))
	}
	if err == nil || !strings.Contains(err.Error(), "reads res of more than 1000 objects") || err.(*FilterFailures).Rules != 2 { //nolint:errorlint // as Select returns it
		t.Errorf("got %v", err)
	}
	if objects.looked > maxFiltered+2 {
		t.Errorf("looked at %d objects", objects.looked)
	}
}

// Fails when each evaluation has a time of its own.
func TestTheTimeOfAllFiltersIsBounded(t *testing.T) {
	objects := &objectCache{}
	for i := range maxFiltered {
		objects.names = append(objects.names, fmt.Sprint("o-", i))
	}
	costly := `res.kind == "x" || req.all(a, req.all(b, b == 1.0))`
	f := newFilters(t, objects, "", rule{name: "*", filter: costly}, rule{name: "*", filter: costly + ` || false`}, rule{name: "last"})
	began := time.Now()
	triggers, err := f.Select(t.Context(), nil, []byte("["+strings.Repeat("1,", 90)+"1]"))
	if took := time.Since(began); took > 20*limit.FilterTime { // far below the time of all evaluations, far above a busy machine's delay
		t.Errorf("took %v", took)
	}
	if err == nil || !strings.Contains(err.Error(), "not decided in time") || err.(*FilterFailures).Rules != 2 { //nolint:errorlint // as Select returns it
		t.Errorf("got %v", err)
	}
	if n := len(triggers); n == 0 || triggers[n-1].Target.Name != "last" {
		t.Errorf("%d triggers, and what has no filter is not among them", n)
	}
}

// ending is a context that ends after its error was asked for a number of times.
type ending struct {
	context.Context
	asked *int
}

func (e ending) Err() error {
	if *e.asked--; *e.asked < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// Fails when the time ends between the last condition of an object and the next object, and the objects that were left out are no failure:
// a target gets no request and nobody learns of it (T4).
func TestT4ObjectsThatAreLeftOutForWantOfTimeAreAFailure(t *testing.T) {
	objects := &objectCache{names: []string{"a", "b", "c"}}
	f := newFilters(t, objects, `res.kind == "GitRepository"`, rule{name: "*"})
	for checks := range 8 {
		s := filtering{Filters: f, vars: map[string]any{}, decided: map[*Condition]decision{}, chosen: map[string]bool{}}
		s.selectTriggers(ending{t.Context(), new(checks)}, &f.rules[0])
		if got := chosen(t, s.triggers); (got == "a b c") != (s.failures.Rules == 0) {
			t.Errorf("after %d checks: %q are chosen, failures: %q", checks, got, s.failures.Error())
		}
	}
}

// leaving is a cache during whose use the sender hangs up.
type leaving struct {
	FilterObjects
	leave func()
}

func (leaving) Pending(string) bool { return false }

func (l leaving) Objects(namespace string, target event.Target) (objects iter.Seq2[string, map[string]any], watched bool) {
	l.leave()
	return l.FilterObjects.Objects(namespace, target)
}

// Fails when a filter ends with its sender's connection: the webhook is authentic.
func TestAFilterOutlivesItsSender(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	objects := leaving{&objectCache{names: []string{"a", "b"}}, cancel}
	f := newFilters(t, objects, `[1, 2, 3].all(a, a > 0) && has(res.kind)`, rule{name: "*"})
	triggers, err := f.Select(ctx, nil, nil)
	if err != nil || chosen(t, triggers) != "a b" {
		t.Errorf("got %v, %v", triggers, err)
	}
}

// standing is a cache, during whose first use the process stands still for longer than filters may take.
type standing struct {
	FilterObjects
	used bool
}

func (s *standing) Objects(namespace string, target event.Target) (objects iter.Seq2[string, map[string]any], watched bool) {
	if !s.used {
		<-time.After(2 * limit.FilterTime)
	}
	s.used = true
	return s.FilterObjects.Objects(namespace, target)
}

// T4: fails when an authentic webhook leads to nothing because the process was suspended, or had no processor, while its filters were
// evaluated.
func TestT4ATriggerIsNotLostToAProcessThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFilters(t, &standing{FilterObjects: &objectCache{names: []string{"a", "b"}}}, `has(res.kind)`, rule{name: "*"}, rule{name: "b"})
		triggers, err := f.Select(t.Context(), nil, nil)
		if err != nil || chosen(t, triggers) != "a b" {
			t.Errorf("got %v, %v", triggers, err)
		}
	})
}

// Fails when a filter is reported as failed, and its trigger is dropped, because its objects are not read yet.
func TestAFilterWaitsForObjectsThatAreNotReadYet(t *testing.T) {
	filters := newFilters(t, &objectCache{names: []string{"app"}}, "", rule{name: "app"}, rule{kind: "Bucket", name: "b", filter: "res.metadata.name == 'b'"})
	triggers, err := filters.Select(t.Context(), nil, []byte("{}"))
	if !errors.Is(err, ErrPending) || triggers != nil {
		t.Errorf("got %v, %v", triggers, err)
	}
}
