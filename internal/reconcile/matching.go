package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "notifier/api/v1"
	"notifier/internal/alerts"
	"notifier/internal/event"
	"notifier/internal/fair"
	"notifier/internal/receiver/cel"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/recorder"
)

// WatchedObjects reads the watchers' cache.
type WatchedObjects interface {
	cel.FilterObjects
	// Select returns the names of the objects of a namespace that a target selects. Selects reports whether the object of that name is
	// among them. Both report false for a kind that is not watched.
	Select(namespace string, target event.Target) (names []string, watched bool)
	Selects(namespace string, target event.Target, name string) (selected, watched bool)
}

// Bounds on the entries that are counted for one object's condition, and on those named there.
const (
	maxLookedAt  = 64
	maxTold      = 5
	maxKindEdits = 3
)

// Named objects are made and deleted without a change of the object that names them: they are counted lookAgainSoon after that. They may
// have been applied with the object, so that it is first reported to match nothing at that age. They are counted every lookAgainLate in any
// case, since a kind that comes or goes without objects is not reported.
const (
	lookAgainSoon = 5 * time.Second
	lookAgainLate = 10 * time.Minute
)

// mention is one entry of a spec that names objects of the namespace.
type mention struct {
	field  string
	target event.Target
	// versioned reports that the spec gives the API version.
	versioned bool
	// watched reports that the entry has no effect on objects that are not watched: it selects by label, or its events trigger a Receiver,
	// which only those about a known object do (invariant E9).
	watched bool
}

// matcher counts the objects that Alerts and Receivers name, and finds the entries that name none.
type matcher struct {
	objects WatchedObjects
	// kinds are those that are watched if the cluster serves them.
	kinds []string
	// share bounds the time of counting: a namespace may have any number of objects, and thousands of specs that name all of them.
	share *fair.Share
}

// countWindow and countTime bound the time in which the objects of a namespace are counted to an eighth of a processor.
const countWindow, countTime = 8 * time.Second, time.Second

func newMatcher(objects WatchedObjects, kinds []string) matcher {
	return matcher{objects, kinds, fair.NewShare(fair.ShareOptions{Window: countWindow, Namespace: countTime})}
}

// tally has the counts of one spec's entries.
type tally struct {
	// found are the objects, as kind/name.
	found map[string]struct{}
	// faults are the entries that the owner has to correct, idle those that match nothing and may do so.
	faults, idle []string
	misspelt     bool
	// cut says that there are more than maxLookedAt entries.
	cut bool
	// uncounted are the entries of kinds that are not watched.
	uncounted int
}

// condition returns the condition Matching of an object that names others. It returns false while the cache is incomplete, and while the
// namespace has used up its time.
func (m matcher) condition(namespace string, mentions []mention) (metav1.Condition, bool) {
	if m.pending(mentions) || m.share.Left(namespace) <= 0 {
		return metav1.Condition{}, false
	}
	defer m.share.Timed(namespace)()
	t := tally{found: map[string]struct{}{}, cut: len(mentions) > maxLookedAt}
	for _, one := range mentions[:min(len(mentions), maxLookedAt)] {
		m.count(&t, namespace, one)
	}
	if len(mentions) == 0 {
		t.faults = []string{"no entry names an object of this namespace"}
	}
	c := metav1.Condition{Type: matchingCondition, Status: metav1.ConditionTrue, Reason: v1.ObjectsMatchReason, Message: t.message()}
	switch {
	case t.misspelt:
		c.Status, c.Reason = metav1.ConditionFalse, v1.UnknownKindReason
	case len(t.faults) > 0 || len(t.found)+t.uncounted == 0:
		c.Status, c.Reason = metav1.ConditionFalse, v1.NothingMatchesReason
	case len(t.found) == 0:
		c.Status, c.Reason = metav1.ConditionUnknown, v1.NotWatchedReason
	}
	return c, true
}

// pending reports whether the cache lacks objects that would be counted.
func (m matcher) pending(mentions []mention) bool {
	return slices.ContainsFunc(mentions[:min(len(mentions), maxLookedAt)], func(one mention) bool {
		return m.objects.Pending(one.target.Kind)
	})
}

// count counts the objects of one entry.
func (m matcher) count(t *tally, namespace string, one mention) {
	target := one.target
	what := fmt.Sprintf("%s: %s %q", one.field, target.Kind, target.Name)
	if !slices.Contains(m.kinds, target.Kind) {
		if near := m.nearest(target.Kind); near != "" {
			t.misspelt = true
			t.faults = append(t.faults, fmt.Sprintf("%s: no kind %s is known, is %s meant?", one.field, target.Kind, near))
		} else {
			t.unwatched(what, one)
		}
		return
	}
	var names []string
	var watched, selected bool
	if target.Selects() {
		names, watched = m.objects.Select(namespace, target)
	} else if selected, watched = m.objects.Selects(namespace, target, target.Name); selected {
		names = []string{target.Name}
	}
	for _, name := range names {
		t.found[target.Kind+"/"+name] = struct{}{}
	}
	switch {
	case !watched && one.versioned: // another group's kind of the same name
		t.unwatched(what, one)
	case !watched:
		t.idle = append(t.idle, what+" is of a kind that the cluster does not serve")
	case len(names) == 0 && target.Selects():
		t.idle = append(t.idle, what+" matches none: correct name and labels, or make one")
	case len(names) == 0 && target.MatchLabels != nil:
		t.faults = append(t.faults, what+" does not exist, or lacks a label: correct name and labels, or make it")
	case len(names) == 0:
		t.faults = append(t.faults, what+" does not exist: correct the name, or make it")
	}
}

// unwatched notes an entry whose objects are not watched, so that they cannot be counted.
func (t *tally) unwatched(what string, one mention) {
	if !one.watched {
		t.uncounted++
		return
	}
	t.faults = append(t.faults, what+" has no effect: notifier does not watch the kind")
}

// message returns the condition's message, which begins with the number of objects.
func (t *tally) message() string {
	parts := []string{numbered(len(t.found), "object matches", "objects match")}
	all := slices.Concat(t.faults, t.idle)
	parts = append(parts, all[:min(len(all), maxTold)]...)
	if more := len(all) - maxTold; more > 0 {
		parts = append(parts, numbered(more, "more entry matches none", "more entries match none"))
	}
	if t.uncounted > 0 {
		parts = append(parts, numbered(t.uncounted, "entry is", "entries are")+" of a kind that is not watched, and not counted")
	}
	if t.cut {
		parts = append(parts, fmt.Sprintf("only the first %d entries are counted", maxLookedAt))
	}
	return cut(strings.Join(parts, "; "), recorder.MaxMessage)
}

// numbered returns n with the noun in the right number.
func numbered(n int, one, more string) string {
	if n == 1 {
		more = one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// nearest returns the watched kind that a misspelt name is likely meant to be, or "".
func (m matcher) nearest(kind string) string {
	best, least := "", maxKindEdits+1
	for _, known := range m.kinds {
		n := edits(strings.ToLower(kind), strings.ToLower(known))
		if n <= len(known)/4 && n < least { // more edits in a short word make it another word
			best, least = known, n
		}
	}
	return best
}

// edits returns the Levenshtein distance of two words: the least number of letters to insert, remove or replace. Both words are short: a
// kind has at most 63 letters.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// show writes the condition Matching, unless the condition reports expensive patterns, which is more urgent.
func (m matcher) show(o kube.Object) {
	if tooExpensive(*o.Conditions()) {
		return
	}
	if c, ok := m.condition(o.GetNamespace(), mentionsOf(o)); ok {
		if c.Reason == v1.NothingMatchesReason && time.Since(o.GetCreationTimestamp().Time) < lookAgainSoon {
			c.Status = metav1.ConditionUnknown // objects that were applied with it may not exist yet
		}
		c.ObservedGeneration = o.GetGeneration()
		meta.SetStatusCondition(o.Conditions(), c)
	}
}

// again returns the delay until the objects are counted again.
func (m matcher) again(o kube.Object) time.Duration {
	c := meta.FindStatusCondition(*o.Conditions(), matchingCondition)
	young := c != nil && c.Status == metav1.ConditionUnknown && c.Reason == v1.NothingMatchesReason
	if young || m.pending(mentionsOf(o)) || m.share.Left(o.GetNamespace()) <= 0 {
		return lookAgainSoon
	}
	return lookAgainLate
}

// mentionsOf returns the first maxLookedAt objects that an Alert or a Receiver names in its own namespace, and one more if there are more.
func mentionsOf(o kube.Object) (all []mention) {
	switch o := o.(type) {
	case *v1.Alert:
		return mentionedSources(o.Namespace, o.Spec.EventSources[:min(len(o.Spec.EventSources), alerts.MaxSources)])
	case *v1.Receiver:
		all = mentionedSources(o.Namespace, o.Spec.EventSources)
		for i := range all {
			all[i].watched = true
		}
		for i, res := range servedResources(o) {
			if len(all) > maxLookedAt {
				break
			}
			if target, err := planTarget(res); err == nil {
				all = append(all, mention{
					field: fmt.Sprintf("spec.resources[%d]", i), target: target, versioned: res.APIVersion != "", watched: target.Selects(),
				})
			}
		}
	}
	return all
}

func mentionedSources(namespace string, sources []v1.CrossNamespaceObjectReference) (all []mention) {
	for i, s := range sources {
		if len(all) > maxLookedAt {
			break
		}
		if s.Namespace == "" || s.Namespace == namespace { // sources match by kind, in any version
			all = append(all, mention{
				field:  fmt.Sprintf("spec.eventSources[%d]", i),
				target: event.Target{Kind: s.Kind, Name: s.Name, MatchLabels: s.MatchLabels}, watched: len(s.MatchLabels) > 0,
			})
		}
	}
	return all
}
