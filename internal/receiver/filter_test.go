package receiver

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/event"
	"notifier/internal/receiver/cel"
	"notifier/internal/receiver/limit"
)

// twoObjects stands for the watchers' cache: two objects of each kind.
type twoObjects struct{}

func (twoObjects) Pending(string) bool { return false }

func (twoObjects) Objects(string, event.Target) (iter.Seq2[string, map[string]any], bool) {
	return func(yield func(string, map[string]any) bool) {
		for _, name := range []string{"a", "b"} {
			if !yield(name, map[string]any{"metadata": map[string]any{"name": name}}) {
				return
			}
		}
	}, true
}

// rule is an entry of a Receiver's resources with its own filter, empty for none.
type rule struct{ name, filter string }

// newFilters returns filters of the Receiver "team-a/app".
func newFilters(t *testing.T, share *limit.Share, rules ...rule) *cel.Filters {
	t.Helper()
	var compiled []cel.Rule
	for i, r := range rules {
		target := event.Target{APIVersion: "source.toolkit.fluxcd.io/v1", Kind: "GitRepository", Name: r.name}
		one := cel.Rule{Trigger: event.Trigger{Namespace: "team-a", Receiver: "app", Target: target, Key: event.TargetKey(target, "")}}
		if r.filter != "" {
			c, err := cel.NewCondition(fmt.Sprintf("spec.resources[%d].filter", i), r.filter, true)
			if err != nil {
				t.Fatal(err)
			}
			one.Conditions = append(one.Conditions, c)
		}
		compiled = append(compiled, one)
	}
	return cel.NewFilters("team-a", compiled, twoObjects{}, share)
}

// Fails when a filter's failure refuses the webhook or keeps its siblings from triggering, and when it is not reported, counted and kept
// for the Receiver's status.
func TestAFailingFilterIsReportedAndStopsNoOther(t *testing.T) {
	bus := &recorder{}
	filters := newFilters(t, nil, rule{"one", `req.n == 1`}, rule{"*", `res.metadata.name == req.name`}, rule{"last", ""})
	hook := newHook(t, "team-a/app", func(h *Hook) { h.Filter = filters })
	table := newTable(t, unlimited(), hook)
	w := newWebhooks(t, table, bus)
	for _, tc := range []struct {
		body, want string
		triggered  string
		failed     float64
	}{
		{`{"n":1,"name":"b"}`, `{"accepted":true}`, "b last one", 0},
		{`{"n":2,"name":"z"}`, `{"accepted":true}`, "last", 0},
		{`{"name":"a","secret":"hunter2"}`, `{"accepted":true,"filtersFailed":1}`, "a last", 1},
		{`{"n":2}`, `{"accepted":true,"filtersFailed":1}`, "last", 2},
		{`[]`, `{"accepted":true,"filtersFailed":2}`, "last", 3},
		{`nonsense`, `{"accepted":true,"filtersFailed":2}`, "last", 4},
	} {
		bus.Published = nil
		resp := do(w, push(hook.Path, token, tc.body))
		if got := bodyOf(t, resp); resp.StatusCode != http.StatusOK || got != tc.want {
			t.Errorf("%s: %d %s, want %s", tc.body, resp.StatusCode, got, tc.want)
		}
		if got := namesOf(bus.Published); got != tc.triggered {
			t.Errorf("%s: triggered %q, want %q", tc.body, got, tc.triggered)
		}
		if got := testutil.ToFloat64(w.metrics.filters); got != tc.failed {
			t.Errorf("%s: counted %v, want %v", tc.body, got, tc.failed)
		}
	}
	shown := table.lookupStats(t, hook.Path).Read().LastError
	if shown.Result != "filter" || !strings.HasPrefix(shown.Reason, "spec.resources[0].filter reads req, ") || strings.Contains(shown.Reason, "nonsense") {
		t.Errorf("shown: %+v", shown)
	}
}

func (t *Table) lookupStats(tb testing.TB, path string) *Stats {
	tb.Helper()
	rt := t.first(path)
	if rt == nil {
		tb.Fatal("the path is not served")
	}
	return rt.owner.stats
}

// namesOf returns the names of the triggers' targets, sorted.
func namesOf(triggers []event.Trigger) string {
	all := make([]string, len(triggers))
	for i, t := range triggers {
		all[i] = t.Target.Name
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// Fails when the answer to a webhook over a budget, or to a repeated one, does not report that its filters failed.
func TestAFoldedWebhookTellsOfItsFiltersToo(t *testing.T) {
	limits := unlimited()
	limits.Receiver = limit.Budget{Rate: 0.001, Burst: 1}
	filters := newFilters(t, nil, rule{"one", `req.absent == 1`}, rule{"two", ""})
	hook := newHook(t, "team-a/app", func(h *Hook) { h.Filter = filters })
	w := newWebhooks(t, newTable(t, limits, hook), &recorder{})
	do(w, push(hook.Path, token, `{}`))
	resp := do(w, push(hook.Path, token, `{}`))
	if got, want := bodyOf(t, resp), `{"accepted":true,"folded":true,"filtersFailed":1}`; resp.StatusCode != http.StatusAccepted || got != want {
		t.Errorf("got %d %s, want %s", resp.StatusCode, got, want)
	}
	if string(hookFolded.Body) != `{"accepted":true,"folded":true}` {
		t.Errorf("the answer of all others is now %s", hookFolded.Body)
	}
}

// T4: fails when a webhook whose filters could not begin is answered as accepted.
func TestT4AWebhookThatFindsNoRoomForItsFiltersIsNotAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &recorder{}
		share := limit.NewShare()
		filters := newFilters(t, share, rule{"one", `true`})
		turn, ok := share.Enter(t.Context(), "team-a", 0)
		if !ok {
			t.Fatal("no share")
		}
		hook := newHook(t, "team-a/app", func(h *Hook) { h.Filter = filters })
		w := newWebhooks(t, newTable(t, unlimited(), hook), bus)
		if resp := do(w, push(hook.Path, token, `{}`)); resp.StatusCode != http.StatusServiceUnavailable || bus.Count() != 0 {
			t.Errorf("got %d, %d triggers", resp.StatusCode, bus.Count())
		}
		turn.Leave()
		if resp := do(w, push(hook.Path, token, `{}`)); resp.StatusCode != http.StatusOK || bus.Count() != 1 {
			t.Errorf("with share: got %d, %d triggers", resp.StatusCode, bus.Count())
		}
	})
}

// T1: fails when validate does not check the triggers of a filter.
func TestT1AFilterOverAnotherNamespaceIsNotServed(t *testing.T) {
	filters := newFilters(t, nil, rule{"one", `true`}) // of team-a
	hook := newHook(t, "team-b/app", func(h *Hook) { h.Filter = filters })
	if err := hook.validate(); err == nil || !strings.Contains(err.Error(), "not in the Receiver's namespace") {
		t.Errorf("got %v", err)
	}
}

// unread is a filter that reads objects which are still being read.
type unread struct{}

func (unread) ReadsBody() bool { return false }

func (unread) Select(context.Context, []byte, []byte) ([]event.Trigger, error) {
	return nil, cel.ErrPending
}

// Fails when neither the sender nor the Receiver's status is told why a webhook was not accepted that a filter cannot decide yet.
func TestAWebhookThatAFilterCannotDecideYetIsToldSo(t *testing.T) {
	hook := newHook(t, "team-a/app", func(h *Hook) { h.Filter = unread{} })
	table := newTable(t, unlimited(), hook)
	const reason = "objects that a filter reads are still being read"
	resp := do(newWebhooks(t, table, &recorder{}), push(hook.Path, token, "{}"))
	if got := bodyOf(t, resp); resp.StatusCode != http.StatusServiceUnavailable || got != `{"reason":"`+reason+`"}` {
		t.Errorf("answered %d %s", resp.StatusCode, got)
	}
	if got := table.first(hook.Path).owner.stats.Read().LastError; got.Result != "starting" || got.Reason != reason {
		t.Errorf("shown: %+v", got)
	}
}
