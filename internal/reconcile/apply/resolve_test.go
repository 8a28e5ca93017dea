package apply

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
)

// T2: a filter's choice among a selector's objects counts only while the live Receiver selects it. Fails when a trigger by name is
// written although the object is no longer selected.
func TestT2AnObjectThatAFilterChoseIsStillSelected(t *testing.T) {
	inTier := repo("*")
	inTier.MatchExpressions = []event.Requirement{{Key: "tier", Operator: "In", Values: []string{"1"}}}
	for name, c := range map[string]struct {
		selected []string
		change   func(*world, Receiver)
		name     string
		writes   []string
	}{
		"it is selected":            {[]string{"a", "b"}, nil, "a", []string{"a"}},
		"it is not":                 {[]string{"b"}, nil, "a", nil},
		"nothing is":                {nil, nil, "a", nil},
		"the whole selector is not": {[]string{"a"}, nil, "*", nil},
		"the Receiver selects another kind": {[]string{"a"}, func(w *world, r Receiver) {
			other := inTier
			other.Kind = "Bucket"
			r.Targets = []event.Target{other}
			w.receivers.put(r)
		}, "a", nil},
		"another Receiver selects it as the same account": {[]string{"a"}, func(w *world, r Receiver) {
			w.receivers.remove(r.Namespace, r.Name)
			w.receiver("team-a", "twin", r.ServiceAccount, inTier)
		}, "a", []string{"a"}},
		"another Receiver selects it as another account": {[]string{"a"}, func(w *world, r Receiver) {
			w.receivers.remove(r.Namespace, r.Name)
			w.receiver("team-a", "twin", "strong", inTier)
		}, "a", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				if c.selected != nil {
					w.selector[inTier.Selector()] = c.selected
				}
				r := w.receiver("team-a", "github", "deployer", inTier)
				sent := trigger(r, inTier.Named(c.name))
				if c.change != nil {
					c.change(w, r)
				}
				h := w.send(sent)
				pass(2 * time.Second)
				w.want(h, "done")
				var got []string
				for _, p := range w.api.seen() {
					got = append(got, p.object())
				}
				if diff := cmp.Diff(c.writes, got); diff != "" {
					t.Errorf("written (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Fails when a short time without a watch of the kind, as while its definition changes, ends a filter's choice; and when the refusal is
// shown for ever.
func TestT4AFiltersChoiceOutlivesTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watcher := &switched{fakeSelector: fakeSelector{"": []string{"a"}}}
		w := newWorld(t, func(o *Options) { o.Selector = watcher })
		defer w.stop()
		all := repo("*")
		w.api.respond(always(503))
		r := w.receiver("team-a", "github", "deployer", all)
		h := w.send(trigger(r, all.Named("a"))) // claimed while it is watched
		pass(time.Second)
		watcher.off.Store(true)
		late := w.send(trigger(r, all.Named("a")))
		w.api.respond(nil)
		pass(2 * time.Minute)
		w.want(h, "done") // the later trigger replaced it
		w.want(late, "held")
		if len(w.health("team-a/github").Denied) != 1 {
			t.Error("not shown")
		}
		watcher.off.Store(false)
		pass(2 * time.Minute)
		w.want(late, "done")
		if denied := w.health("team-a/github").Denied; len(denied) != 0 {
			t.Errorf("still shown: %+v", denied)
		}
	})
}

// T4: fails when a trigger whose objects are not read yet, as after a start, is dropped or shown as refused.
func TestT4ATriggerWaitsForObjectsThatAreNotReadYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watcher := &switched{fakeSelector: fakeSelector{"": []string{"a"}}}
		watcher.off.Store(true)
		watcher.pending.Store(true)
		w := newWorld(t, func(o *Options) { o.Selector = watcher })
		defer w.stop()
		all := repo("*")
		r := w.receiver("team-a", "github", "deployer", all)
		selector, choice := w.send(trigger(r, all)), w.send(trigger(r, all.Named("a")))
		pass(15 * time.Minute) // longer than a refusal is tried
		w.want(selector, "held")
		w.want(choice, "held")
		if denied := w.health("team-a/github").Denied; len(denied) != 0 {
			t.Errorf("shown as refused: %+v", denied)
		}
		watcher.off.Store(false)
		watcher.pending.Store(false)
		pass(2 * time.Minute)
		w.want(selector, "done")
		w.want(choice, "done")
	})
}

// T4: the webhooks of two Receivers for one object, as one account, are one message, which names the Receiver of the later one. That Receiver
// gets another account, which may not write the object. Fails when the other Receiver's webhook is then refused as well, and when what either
// account may write is not tried as that account.
func TestT4AnotherReceiversWebhookIsNotRefusedForItsNewAccount(t *testing.T) {
	for may, accounts := range map[string][2]string{
		"deployer": {"deployer", "weak"},
		"strong":   {"weak", "strong"}, // as for an owner who corrects what is refused
	} {
		t.Run(may, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				w.api.respond(func(p patch) (int, http.Header) {
					if p.user == "system:serviceaccount:team-a:"+may {
						return http.StatusOK, nil
					}
					return http.StatusForbidden, nil
				})
				one := w.receiver("team-a", "one", accounts[0], repo("app"))
				two := w.receiver("team-a", "two", accounts[0], repo("app"))
				w.hook(one) // its slot is busy for an interval, so that the next triggers wait
				pass(100 * time.Millisecond)
				accepted := time.Now()
				w.hook(one)
				h := w.hook(two)
				two.ServiceAccount = accounts[1]
				w.receivers.put(two)
				pass(2 * time.Minute)
				w.want(h, "done")
				for _, p := range w.api.seen() {
					stamp, err := time.Parse(time.RFC3339Nano, p.stamp)
					w.must(err)
					if strings.HasSuffix(p.user, ":"+may) && !stamp.Before(accepted) {
						return
					}
				}
				t.Errorf("no request as %s: %+v", may, w.api.seen())
			})
		})
	}
}
