package apply

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	v1 "notifier/api/v1"
	"notifier/internal/event"
)

// query is one question as the API server saw it.
type query struct {
	at                   time.Time
	user, verb, resource string
	namespace, name      string
}

// fakeRBAC is an API server that answers questions about permissions: who may what by a list, "account resource name" or
// "account resource *". The process itself may all but the plain impersonation.
type fakeRBAC struct {
	mu       sync.Mutex
	may      map[string]bool
	accounts map[string]bool
	// old says that the server does not know constrained impersonation.
	old, away bool
	asked     []query
	existed   int
}

func newRBAC() *fakeRBAC {
	return &fakeRBAC{may: map[string]bool{}, accounts: map[string]bool{"weak": true, "default": true}}
}

func (f *fakeRBAC) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// questions are those that were asked about accounts since.
func (f *fakeRBAC) questions(since time.Time) (all []query) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.asked {
		if a.user != "" && a.resource != "serviceaccounts" && !a.at.Before(since) {
			all = append(all, a)
		}
	}
	return all
}

func (f *fakeRBAC) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := func(code int, body any) (*http.Response, error) {
		text, err := json.Marshal(body)
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(text))), Request: r,
		}, err
	}
	status := func(code int, message string) (*http.Response, error) {
		return answer(code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message})
	}
	if f.away {
		return nil, fmt.Errorf("no connection")
	}
	if r.Method == http.MethodGet {
		f.existed++
		if !f.accounts[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]] {
			return status(http.StatusNotFound, "not found")
		}
		return answer(http.StatusOK, map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"})
	}
	var review authorizationv1.SelfSubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		return nil, err
	}
	what, user := review.Spec.ResourceAttributes, r.Header.Get("Impersonate-User")
	f.asked = append(f.asked, query{time.Now(), user, what.Verb, what.Resource, what.Namespace, what.Name})
	switch {
	case user == "":
		review.Status.Allowed = what.Verb != verbImpersonate || f.may["plain"]
	case f.old && !f.may["plain"]:
		return status(http.StatusForbidden, `serviceaccounts "x" is forbidden: User "notifier" cannot impersonate resource "serviceaccounts"`)
	default:
		account := user[strings.LastIndex(user, ":")+1:]
		review.Status.Allowed = f.may[account+" "+what.Resource+" *"] || what.Name != "" && f.may[account+" "+what.Resource+" "+what.Name]
	}
	return answer(http.StatusCreated, review)
}

// reviewing has the world's applier ask an API server about permissions.
func reviewing(t *testing.T, f *fakeRBAC) func(*Options) {
	t.Helper()
	access, err := NewAccess(&rest.Config{Host: "http://api.test", Transport: f})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) {
		o.Access, o.ReviewInterval = access, 5*time.Minute
		o.Account.Namespace, o.Account.Name = "default", "default"
	}
}

// shown are the denials of a Receiver, "reason resource object".
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

// Fails when a refusal is found only by a write, or is not taken back by the review after it was mended.
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

// What a write met with for another reason than a permission is not taken back by a review, and one for want of a permission is told
// once. Fails when either takes the other's back, or when both are shown.
func TestAReviewAndAWriteTellOneTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		w := newWorld(t, reviewing(t, f))
		defer w.stop()
		w.api.respond(always(http.StatusForbidden))
		r := w.receiver("team-a", "hook", "weak", repo("app"))
		pass(3 * time.Second)
		before := w.health("team-a/hook")
		w.hook(r)
		pass(20 * time.Minute) // refused until the end
		if got := w.health("team-a/hook"); !slices.Equal(got.Denied, before.Denied) {
			t.Errorf("a write that was refused as foretold changed %+v to %+v", before.Denied, got.Denied)
		}
		f.change(func() { f.may["weak gitrepositories *"] = true })
		pass(6 * time.Minute)
		w.wantShown("team-a/hook") // the last write was refused for want of what is there now

		w.hook(r) // now it is refused by somebody else, an admission policy
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

// Fails when a write that succeeded leaves standing what a review said of all that a selector finds.
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

// Fails when what was found of a Receiver stays after it names another account or other objects.
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
	})
}

// Fails when an API server that gives no answer is taken to have said something.
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

// Fails when a replica asks for namespaces of shards that it does not own, or goes on when it has lost one.
func TestOnlyTheOwnerOfANamespaceAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		bus := &otherShard{}
		w := newWorld(t, reviewing(t, f), func(o *Options) { bus.Bus, o.Bus = o.Bus, bus })
		defer w.stop()
		w.receiver("theirs", "hook", "weak", repo("app"))
		w.receiver("ours", "hook", "weak", repo("app"))
		pass(time.Hour)
		for _, q := range f.questions(time.Time{}) {
			if q.namespace != "ours" && q.resource == "gitrepositories" {
				t.Fatalf("asked for %+v", q)
			}
		}
		w.wantShown("ours/hook", "Forbidden "+repositories+" app")
		w.wantShown("theirs/hook")
	})
}

// otherShard has the namespace "theirs" in a shard that is another replica's.
type otherShard struct{ Bus }

func (*otherShard) TriggerShard(namespace string) int {
	if namespace == "theirs" {
		return 1
	}
	return 0
}

// T6: 500 namespaces and one that has 2,000 Receivers, each with an account of its own. Fails when that one is asked about more than
// its share, when it holds up the others, when more is asked in a second than the budget, or when what is well is asked about more than
// once an interval.
func TestT6ReviewsAreBoundedAndFairByNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		w := newWorld(t, reviewing(t, f))
		defer w.stop()
		f.may["default gitrepositories *"] = true
		for i := range 2000 {
			w.receiver("hostile", fmt.Sprintf("hook-%04d", i), fmt.Sprint("account-", i), repo("app"))
		}
		for i := range 500 {
			for j := range 3 {
				w.receiver(fmt.Sprintf("team-%03d", i), fmt.Sprint("hook-", j), "default", repo(fmt.Sprint("app-", j)))
			}
		}
		pass(10 * time.Minute) // all are reviewed, and have their places
		begin := time.Now()
		pass(20 * time.Minute)
		asked, perSecond := map[string]int{}, map[int64]int{}
		for _, q := range f.questions(begin) {
			asked[q.namespace]++
			perSecond[q.at.Unix()]++
		}
		if n := asked["hostile"]; n > 5*maxQuestions {
			t.Errorf("asked %d times for one namespace in four intervals", n)
		}
		for i := range 500 {
			if n := asked[fmt.Sprintf("team-%03d", i)]; n < 3 || n > 5 {
				t.Fatalf("team-%03d: asked %d times in four intervals", i, n)
			}
		}
		for second, n := range perSecond {
			if n > accessQPS+accessBurst {
				t.Errorf("%d questions in second %d", n, second)
			}
		}
		// Who comes meanwhile is told within seconds.
		w.receiver("new", "hook", "weak", repo("app"))
		pass(5 * time.Second)
		w.wantShown("new/hook", "Forbidden "+repositories+" app")
	})
}

// Fails when a server that heeds no constrained impersonation is believed, when each Receiver has it asked again, or when what was mended
// is noticed only by each Receiver in turn.
func TestAnOldServerIsToldOnEveryReceiverAndAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRBAC()
		f.old, f.may["weak gitrepositories *"] = true, true
		w := newWorld(t, reviewing(t, f))
		defer w.stop()
		for i := range 50 {
			w.receiver(fmt.Sprint("team-", i), "hook", "weak", repo("app"))
		}
		pass(10 * time.Minute)
		if err := w.applier.Impersonation(); err == nil || !strings.Contains(err.Error(), "config/legacy-impersonation") {
			t.Errorf("the process says %v", err)
		}
		begin := time.Now()
		for i := range 50 {
			w.wantShown(fmt.Sprintf("team-%d/hook", i), v1.ImpersonationRefusedReason+" GitRepository *")
		}
		pass(30 * time.Minute)
		if n := len(f.questions(begin)); n > 0 {
			t.Errorf("asked %d times what the server does not answer", n)
		}
		f.change(func() { f.may["plain"] = true })
		pass(6 * time.Minute)
		if err := w.applier.Impersonation(); err != nil {
			t.Errorf("the process says %v", err)
		}
		for i := range 50 {
			w.wantShown(fmt.Sprintf("team-%d/hook", i))
		}
	})
}
