package apply

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"notifier/internal/event"
)

// reviewing makes the world's applier ask an API server about permissions.
func reviewing(t *testing.T, f *fakeRBAC) func(*Options) {
	t.Helper()
	access, err := NewAccess(&rest.Config{Host: "http://api.test", Transport: f})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) {
		o.Access = access
		o.Account.Namespace, o.Account.Name = "default", "default"
	}
}

// shown returns the denials of a Receiver, as "reason resource object".
func (w *world) shown(receiver string) []string {
	w.t.Helper()
	var all []string
	for _, d := range w.health(receiver).Denied {
		all = append(all, fmt.Sprintf("%s %s %s", d.Reason, d.Resource, d.Object))
	}
	return all
}

func (w *world) wantShown(receiver string, want ...string) {
	w.t.Helper()
	if got := w.shown(receiver); !slices.Equal(got, want) {
		w.t.Errorf("%s: got %q, want %q", receiver, got, want)
	}
}

const repositories = "gitrepositories.source.toolkit.fluxcd.io"

// Fails when only a write finds a refusal, or when the review does not remove it after the repair.
func TestAReviewFindsWhatAWriteWouldMeetWith(t *testing.T) {
	absent := event.Target{APIVersion: "source.toolkit.fluxcd.io/v1", Kind: "Absent", Name: "x"}
	for name, tc := range map[string]struct {
		account  string
		targets  []event.Target
		may      []string
		selected []string
		want     []string
		mends    func(w *world, f *fakeRBAC)
	}{
		"an account that may": {account: "weak", targets: []event.Target{repo("app")}, may: []string{"weak gitrepositories *"}},
		"an account that may not": {
			account: "weak", targets: []event.Target{repo("app"), repo("b")},
			want:  []string{"Forbidden " + repositories + " app", "Forbidden " + repositories + " b"},
			mends: func(_ *world, f *fakeRBAC) { f.may["weak gitrepositories *"] = true },
		},
		"an account that may one by its name": {
			account: "weak", targets: []event.Target{repo("app"), repo("b")}, may: []string{"weak gitrepositories app"},
			want:  []string{"Forbidden " + repositories + " b"},
			mends: func(_ *world, f *fakeRBAC) { f.may["weak gitrepositories b"] = true },
		},
		"an account that may not, and an object in many targets": {
			account: "weak", targets: append(slices.Repeat([]event.Target{repo("app")}, maxDenied), repo("b")),
			want:  []string{"Forbidden " + repositories + " app", "Forbidden " + repositories + " b"},
			mends: func(_ *world, f *fakeRBAC) { f.may["weak gitrepositories *"] = true },
		},
		"an account that does not exist": {
			account: "missing", targets: []event.Target{repo("app")}, want: []string{"ServiceAccountNotFound " + repositories + " app"},
			mends: func(_ *world, f *fakeRBAC) { f.may["missing gitrepositories *"] = true },
		},
		"a selector none of whose objects it may": {
			account: "weak", targets: []event.Target{selecting("a", "b")}, selected: []string{"one", "two"},
			want: []string{"Forbidden " + repositories + " *"},
			mends: func(_ *world, f *fakeRBAC) {
				f.may["weak gitrepositories one"], f.may["weak gitrepositories two"] = true, true
			},
		},
		"a selector one of whose objects it may": {
			account: "weak", targets: []event.Target{selecting("a", "b")}, selected: []string{"one", "two"}, may: []string{"weak gitrepositories one"},
			want:  []string{"Forbidden " + repositories + " two"},
			mends: func(w *world, _ *fakeRBAC) { w.selector[selecting("a", "b").Selector()] = []string{"one"} },
		},
		"a selector that finds nothing": {account: "weak", targets: []event.Target{selecting("a", "b")}},
		"a kind that is not served": {
			account: "weak", targets: []event.Target{absent, repo("app")}, may: []string{"weak gitrepositories *"},
			want: []string{"KindNotFound Absent x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newRBAC()
				w := newWorld(t, reviewing(t, f))
				defer w.stop()
				for _, may := range tc.may {
					f.may[may] = true
				}
				w.selector[selecting("a", "b").Selector()] = tc.selected
				w.receiver("team-a", "hook", tc.account, tc.targets...)
				pass(3 * time.Second)
				w.wantShown("team-a/hook", tc.want...)
				pass(time.Hour)
				w.wantShown("team-a/hook", tc.want...)
				if tc.mends != nil {
					f.change(func() { tc.mends(w, f) })
					pass(5*time.Minute + time.Second)
					w.wantShown("team-a/hook")
				}
				if n := len(w.api.seen()); n > 0 {
					t.Errorf("%d requests were written", n)
				}
			})
		})
	}
}

// A review does not remove a write's refusal for another reason than a permission. A refusal for lack of a permission is shown once.
// Fails when either removes the other's, or when both are shown.
func TestAReviewAndAWriteTellOneTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		w := newWorld(t, reviewing(t, f))
		defer w.stop()
		w.api.respond(always(http.StatusForbidden))
		r := w.receiver("team-a", "hook", "weak", repo("app"))
		pass(3 * time.Second)
		before, puts := w.health("team-a/hook"), w.reports.puts
		w.hook(r)
		pass(20 * time.Minute) // refused until the end
		if w.reports.puts != puts {
			t.Errorf("reported %d times what was told already", w.reports.puts-puts)
		}
		if got := w.health("team-a/hook"); !slices.Equal(got.Denied, before.Denied) {
			t.Errorf("a write that was refused as foretold changed %+v to %+v", before.Denied, got.Denied)
		}
		f.change(func() { f.may["weak gitrepositories *"] = true })
		pass(6 * time.Minute)
		w.wantShown("team-a/hook") // the last write was refused for lack of a permission that is granted now

		w.hook(r) // now an admission policy refuses it
		pass(30 * time.Minute)
		got := w.health("team-a/hook").Denied
		if len(got) != 1 || got[0].Reviewed || !strings.Contains(got[0].Message, "cannot patch app") {
			t.Errorf("what a write met with is not shown: %+v", got)
		}
		w.api.respond(nil)
		w.hook(r)
		pass(3 * time.Second)
		w.wantShown("team-a/hook")
	})
}

// Fails when the refusal of a write is shown beside the later finding of a review.
func TestAReviewTakesThePlaceOfWhatAWriteMetWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		f.away = true
		w := newWorld(t, reviewing(t, f))
		defer w.stop()
		w.api.respond(always(http.StatusForbidden))
		w.selector[selecting("a", "b").Selector()] = []string{"one", "two"}
		w.hook(w.receiver("team-a", "hook", "weak", selecting("a", "b")))
		pass(3 * time.Second)
		if got := w.shown("team-a/hook"); len(got) != 2 { // in the order in which they were written
			t.Errorf("what the writes met with: %q", got)
		}
		f.change(func() { f.away = false })
		pass(6 * time.Minute)
		w.wantShown("team-a/hook", "Forbidden "+repositories+" *")
	})
}

// Fails when a refused write does not cause a review of the permission at once.
func TestARefusedWriteIsReviewedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		f.may["weak gitrepositories *"] = true
		w := newWorld(t, reviewing(t, f))
		defer w.stop()
		r := w.receiver("team-a", "hook", "weak", repo("app"))
		pass(10 * time.Second)
		w.wantShown("team-a/hook")
		f.change(func() { clear(f.may) })
		w.api.respond(always(http.StatusForbidden))
		w.hook(r)
		pass(3 * time.Second)
		if got := w.health("team-a/hook").Denied; len(got) != 1 || !got[0].Reviewed || !strings.Contains(got[0].Message, "RoleBinding") {
			t.Errorf("what is to be done is not said: %+v", got)
		}
	})
}

// RBAC often arrives a moment after the Receiver. Fails when it is noticed only at the interval.
func TestARightGrantedSoonIsNoticedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		w := newWorld(t, reviewing(t, f))
		defer w.stop()
		w.receiver("team-a", "hook", "weak", repo("app"))
		pass(4 * time.Second)
		w.wantShown("team-a/hook", "Forbidden "+repositories+" app")
		f.change(func() { f.may["weak gitrepositories *"] = true })
		pass(6 * time.Second)
		w.wantShown("team-a/hook")
	})
}

// Fails when a successful write leaves a review's denial of all objects of a selector.
func TestAWriteThatSucceedsTakesAReviewBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		w := newWorld(t, reviewing(t, f))
		defer w.stop()
		w.selector[selecting("a", "b").Selector()] = []string{"one"}
		r := w.receiver("team-a", "hook", "weak", selecting("a", "b"))
		pass(3 * time.Second)
		w.wantShown("team-a/hook", "Forbidden "+repositories+" *")
		w.hook(r)
		pass(2 * time.Second)
		w.wantShown("team-a/hook")
	})
}

// Fails when the findings about a Receiver stay after it names another account or other objects.
func TestAReviewForgetsWhatAReceiverNoLongerNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		w := newWorld(t, reviewing(t, f))
		defer w.stop()
		f.may["default gitrepositories *"] = true
		w.receiver("team-a", "hook", "weak", repo("app"))
		pass(3 * time.Second)
		w.receiver("team-a", "hook", "weak", repo("other"))
		pass(3 * time.Second)
		w.wantShown("team-a/hook", "Forbidden "+repositories+" other")
		w.receiver("team-a", "hook", "default", repo("other"))
		pass(3 * time.Second)
		w.wantShown("team-a/hook")
		// The same is true of a write's refusal as an account that the Receiver no longer names.
		w.api.respond(always(http.StatusUnprocessableEntity))
		w.hook(w.receiver("team-a", "hook", "default", repo("other")))
		pass(3 * time.Second)
		if got := w.shown("team-a/hook"); len(got) != 1 {
			t.Errorf("a refused write is not shown: %q", got)
		}
		w.receiver("team-a", "hook", "default", repo("app"))
		pass(3 * time.Second)
		w.wantShown("team-a/hook")
	})
}

// Fails when the findings about a Receiver stay after its spec became invalid.
func TestAReviewForgetsAReceiverThatDoesNotLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		w := newWorld(t, reviewing(t, f))
		defer w.stop()
		w.receiver("team-a", "hook", "weak", repo("app"))
		w.receiver("team-a", "other", "weak", repo("app"))
		pass(10 * time.Second)
		w.receivers.remove("team-a", "hook")
		pass(6 * time.Minute)
		w.wantShown("team-a/hook")
		w.wantShown("team-a/other", "Forbidden "+repositories+" app")
		w.receivers.remove("team-a", "other")
		pass(6 * time.Minute)
		w.wantShown("team-a/other")
	})
}

// Earlier reports are read first after a takeover. Fails when a review before that replaces the refusal of a write.
func TestAReviewAfterATakeoverKeepsWhatAWriteMetWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		first := newWorld(t, reviewing(t, f))
		f.may["weak gitrepositories app"] = true
		first.api.respond(always(http.StatusUnprocessableEntity))
		first.selector[selecting("a", "b").Selector()] = []string{"other"}
		first.hook(first.receiver("team-a", "hook", "weak", repo("app"), selecting("a", "b")))
		pass(3 * time.Second)
		want := []string{" " + repositories + " app", "Forbidden " + repositories + " *"}
		first.wantShown("team-a/hook", want...)
		first.stop()
		next := newWorld(t, reviewing(t, f), func(o *Options) {
			o.Reports, o.Receivers, o.Selector = slowReports{first.reports}, first.receivers, first.selector
		})
		defer next.stop()
		pass(10 * time.Minute)
		first.wantShown("team-a/hook", want...)
	})
}

// slowReports delays the stored reports.
type slowReports struct{ *fakeReports }

func (s slowReports) Watch(ctx context.Context, h func(string, []byte)) error {
	<-time.After(reviewDelay / 2)
	return s.fakeReports.Watch(ctx, h)
}

// Fails when the lack of an answer is treated as an answer.
func TestNoAnswerSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		w := newWorld(t, reviewing(t, f))
		defer w.stop()
		r := w.receiver("team-a", "hook", "weak", repo("app"))
		pass(3 * time.Second)
		f.change(func() { f.away = true })
		pass(time.Hour)
		w.wantShown("team-a/"+r.Name, "Forbidden "+repositories+" app")
		w.receiver("team-a", "fine", "weak", repo("app"))
		pass(time.Hour)
		w.wantShown("team-a/fine")
		f.change(func() { f.away, f.may["weak gitrepositories *"] = false, true })
		pass(6 * time.Minute)
		w.wantShown("team-a/" + r.Name)
	})
}
