package apply

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// Fails when the report of a missing Receiver stays.
func TestTheReportEndsWithTheReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.api.respond(always(http.StatusForbidden))
		r := w.receiver("team-a", "github", "weak", repo("app"))
		w.hook(r)
		pass(time.Second)
		w.receivers.remove("team-a", "github")
		w.hook(r)
		pass(time.Minute)
		if value := w.reports.get(healthPrefix + "team-a/github"); value != nil {
			t.Errorf("still reported: %s", value)
		}
	})
}

// A Receiver whose refusal is shown may get no further webhook. Fails when the finding of a retry about its Receiver is not shown, or
// when the report of a replaced Receiver stays. Fails when an object is confused with another that is no longer asked for.
func TestARetryHidesRefusalsOfFormerTargets(t *testing.T) {
	targets := func(targets ...event.Target) func(*world, Receiver) {
		return func(w *world, r Receiver) {
			r.Targets = targets
			w.receivers.put(r)
		}
	}
	remove := func(w *world, r Receiver) { w.receivers.remove(r.Namespace, r.Name) }
	widget := event.Target{APIVersion: "a.example/v1", Kind: "Widget", Name: "app"}
	for name, c := range map[string]struct {
		target event.Target
		change func(*world, Receiver)
		denied int
		// reported means that the Receiver exists, so that its report has no denials.
		reported bool
	}{
		"the Receiver is gone":                        {repo("app"), remove, 0, false},
		"its target is gone":                          {repo("app"), targets(repo("other")), 0, true},
		"its selector is gone":                        {selecting("a", "1"), targets(repo("other")), 0, true},
		"its selector is another":                     {selecting("a", "1"), targets(selecting("b", "2")), 0, true},
		"another selector of it finds the same":       {selecting("a", "1"), targets(selecting("c", "3")), 1, true},
		"nothing changes":                             {repo("app"), targets(repo("app")), 1, true},
		"the Receiver is gone with a kind not served": {anyGroup("Widget", "app"), remove, 0, false},
		"its target of a kind not served is gone":     {anyGroup("Widget", "app"), targets(repo("other")), 0, true},
		"its target of a version not served is gone":  {widget, targets(repo("other")), 0, true},
		"its selector over a kind not watched is gone": {
			event.Target{APIVersion: "a.example/v1", Kind: "Widget", Name: "*", MatchLabels: map[string]string{}},
			targets(repo("other")), 0, true,
		},
		"another asks for the same in its place": {repo("app"), func(w *world, r Receiver) {
			remove(w, r)
			w.receiver(r.Namespace, "twin", r.ServiceAccount, r.Targets...)
		}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				w.selector["a=1"], w.selector["c=3"] = []string{"app"}, []string{"app"}
				w.api.respond(always(http.StatusForbidden))
				r := w.receiver("team-a", "github", "weak", c.target)
				w.hook(r)
				pass(time.Second)
				if len(w.health("team-a/github").Denied) != 1 {
					t.Fatal("not shown")
				}
				c.change(w, r)
				pass(time.Minute)
				if denied := w.health("team-a/github").Denied; len(denied) != c.denied {
					t.Errorf("shown: %+v", denied)
				}
				if reported := w.reports.get(healthPrefix+"team-a/github") != nil; reported != c.reported {
					t.Errorf("reported: %v", reported)
				}
			})
		})
	}
}

// Fails when the entry of a Receiver whose report another replica removed is kept for ever, and when an earlier removal discards an
// entry that is about to be reported.
func TestThePageEndsWithTheReport(t *testing.T) {
	reports := &fakeReports{values: map[string][]byte{}}
	b := newRefusals(reports, nil, slog.New(slog.DiscardHandler))
	r := Receiver{Namespace: "team-a", Name: "github", UID: "u"}
	b.deny(r, Denied{Object: "app"})
	b.learn(healthPrefix+"team-a/github", nil)
	if told := b.reportAll(t.Context()); !told || !strings.Contains(string(reports.get(healthPrefix+"team-a/github")), `"app"`) {
		t.Fatalf("reported %s", reports.get(healthPrefix+"team-a/github"))
	}
	b.learn(healthPrefix+"team-a/github", nil)
	if len(b.entries) != 0 {
		t.Errorf("kept: %+v", b.entries)
	}
}

// The write to an object is refused by an admission webhook, and then the object is deleted. Fails when the refusal is shown for good, as no write to
// the object will ever succeed.
func TestARefusalIsHiddenWhenItsObjectIsGone(t *testing.T) {
	for name, target := range map[string]event.Target{"named": repo("app"), "selected": selecting("team", "a")} {
		for _, ended := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", given up: ", ended), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rbac := newRBAC()
					rbac.may["weak gitrepositories *"] = true
					w := newWorld(t, reviewing(t, rbac))
					defer w.stop()
					w.selector["team=a"] = []string{"app"}
					w.api.respond(always(http.StatusUnprocessableEntity))
					w.hook(w.receiver("team-a", "github", "weak", target))
					pass(time.Minute)
					w.wantShown("team-a/github", " gitrepositories.source.toolkit.fluxcd.io app")
					if ended {
						pass(refusedFor)
						w.wantShown("team-a/github", " gitrepositories.source.toolkit.fluxcd.io app")
					}
					delete(w.selector, "team=a")
					w.receivers.wait("") // its lock shows the deletion to the readers
					w.api.respond(always(http.StatusNotFound))
					if ended && !target.Selects() {
						w.hook(w.receiver("team-a", "github", "weak", target))
					}
					pass(2 * w.opts.ReviewInterval)
					w.wantShown("team-a/github")
				})
			})
		}
	}
}

// A kind is not watched, a webhook finds that its objects cannot be selected, and then the kind is served and watched. Fails when the refusal is
// shown until the Receiver's next webhook, and when it is hidden before.
func TestARefusedSelectorIsHiddenWhenItsKindIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rbac, selector := newRBAC(), &switched{fakeSelector: fakeSelector{"team=a": {"app"}}}
		rbac.may["weak gitrepositories *"] = true
		w := newWorld(t, reviewing(t, rbac), func(o *Options) { o.Selector = selector })
		defer w.stop()
		selector.off.Store(true)
		w.hook(w.receiver("team-a", "github", "weak", selecting("team", "a"), repo("app")))
		pass(2 * w.opts.ReviewInterval)
		w.wantShown("team-a/github", " GitRepository *")
		selector.off.Store(false)
		pass(2 * w.opts.ReviewInterval)
		w.wantShown("team-a/github")
	})
}
