package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apidiscovery "k8s.io/api/apidiscovery/v2"

	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// anyGroup is an object of the kind, in any API group.
func anyGroup(kind, name string) event.Target { return event.Target{Kind: kind, Name: name} }

func (f *fakeAPI) add(more ...apidiscovery.APIGroupDiscovery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.more = more
}

func (f *fakeAPI) discover(answer func(ctx context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.discovery = answer
}

// paths returns the distinct paths of the requests.
func (f *fakeAPI) paths() []string {
	var paths []string
	for _, p := range f.seen() {
		paths = append(paths, p.path)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// cluster makes the kind cluster-scoped, readOnly makes it impossible to patch.
func cluster(v apidiscovery.APIVersionDiscovery) apidiscovery.APIVersionDiscovery {
	v.Resources[0].Scope = apidiscovery.ScopeCluster
	return v
}

func readOnly(v apidiscovery.APIVersionDiscovery) apidiscovery.APIVersionDiscovery {
	v.Resources[0].Verbs = []string{"get", "list"}
	return v
}

// Fails when a version counts as a group of its own, or when the order of versions is not the server's. Fails when a resource that
// cannot be patched in a namespace makes a kind ambiguous.
func TestTheOnlyGroupThatHasAKindIsMeant(t *testing.T) {
	const refused = ""
	nameless := serves("v1", "Widget")
	nameless.Resources[0].ResponseKind = nil
	for name, c := range map[string]struct {
		groups []apidiscovery.APIGroupDiscovery
		path   string
		says   string
	}{
		"one group": {[]apidiscovery.APIGroupDiscovery{group("a.example", serves("v1", "Widget"))}, "/apis/a.example/v1", ""},
		"the version that it prefers": {
			[]apidiscovery.APIGroupDiscovery{group("a.example", serves("v2", "Widget"), serves("v1", "Widget"))}, "/apis/a.example/v2", "",
		},
		"the first version that has it": {
			[]apidiscovery.APIGroupDiscovery{group("a.example", serves("v2", "Gadget"), serves("v1beta1", "Widget"))},
			"/apis/a.example/v1beta1", "",
		},
		"the core group": {[]apidiscovery.APIGroupDiscovery{group("", serves("v1", "Widget"))}, "/api/v1", ""},
		"another has it in no namespace": {
			[]apidiscovery.APIGroupDiscovery{group("a.example", serves("v1", "Widget")), group("b.example", cluster(serves("v1", "Widget")))},
			"/apis/a.example/v1", "",
		},
		"another has it read-only": {
			[]apidiscovery.APIGroupDiscovery{group("b.example", readOnly(serves("v1", "Widget"))), group("a.example", serves("v1", "Widget"))},
			"/apis/a.example/v1", "",
		},
		"two groups": {
			[]apidiscovery.APIGroupDiscovery{group("b.example", serves("v1", "Widget")), group("", serves("v1", "Widget"))},
			refused, `kind Widget is served by the API groups "" (core), b.example: set apiVersion`,
		},
		"none":                  {nil, refused, kube.ErrNotServed.Error()},
		"a resource of no kind": {[]apidiscovery.APIGroupDiscovery{group("a.example", nameless)}, refused, kube.ErrNotServed.Error()},
		"a group that is none":  {[]apidiscovery.APIGroupDiscovery{group("../..", serves("v1", "Widget"))}, refused, kube.ErrNotServed.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				w.api.add(c.groups...)
				h := w.hook(w.receiver("team-a", "github", "deployer", anyGroup("Widget", "app")))
				pass(time.Second)
				var want []string
				if c.path != refused {
					want = []string{c.path + "/namespaces/team-a/widgets/app"}
					w.want(h, "done")
				}
				if diff := cmp.Diff(want, w.api.paths()); diff != "" {
					t.Errorf("written (-want +got):\n%s", diff)
				}
				denied := w.health("team-a/github").Denied
				if c.path == refused && (len(denied) != 1 || denied[0].Message != c.says || denied[0].Object != "app") {
					t.Errorf("denied %+v", denied)
				}
			})
		})
	}
}

// Fails when a refusal of a kind ends the trigger, or is shown for ever.
func TestAKindMayBeServedLater(t *testing.T) {
	for name, before := range map[string][]apidiscovery.APIGroupDiscovery{
		"not yet served":  nil,
		"still ambiguous": {group("a.example", serves("v1", "Widget")), group("b.example", serves("v1", "Widget"))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				w.api.add(before...)
				h := w.hook(w.receiver("team-a", "github", "deployer", anyGroup("Widget", "app")))
				pass(30 * time.Second)
				w.want(h, "held")
				if len(w.health("team-a/github").Denied) != 1 {
					t.Error("not shown")
				}
				w.api.add(group("a.example", serves("v1", "Widget")))
				pass(time.Minute + 10*time.Second)
				w.want(h, "done")
				if denied := w.health("team-a/github").Denied; len(denied) != 0 {
					t.Errorf("still shown: %+v", denied)
				}
			})
		})
	}
}

// T4: one object, one request per interval. Fails when the slot of a target without an API version has no group.
func TestT4TheSlotIsTheSameWithAndWithoutAnAPIVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		named := w.receiver("team-a", "named", "deployer", repo("app"))
		left := w.receiver("team-a", "left", "deployer", anyGroup("GitRepository", "app"))
		weak := w.receiver("team-a", "weak", "weak", anyGroup("GitRepository", "app"))
		var last []*fakeHold
		for range 100 {
			last = []*fakeHold{w.hook(named), w.hook(left), w.hook(weak)}
			pass(100 * time.Millisecond)
		}
		pass(10 * time.Second)
		for _, h := range last {
			w.want(h, "done")
		}
		patches := w.api.seen()
		for i := 1; i < len(patches); i++ {
			if gap := patches[i].at.Sub(patches[i-1].at); gap < time.Second {
				t.Fatalf("requests %d and %d are %v apart", i-1, i, gap)
			}
		}
		if diff := cmp.Diff([]string{"/apis/source.toolkit.fluxcd.io/v1/namespaces/team-a/gitrepositories/app"}, w.api.paths()); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
}

// Fails when the core group, which has no name, and a version that was left out are the same.
func TestT4AnObjectOfAnotherGroupIsAnotherObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		core := event.Target{APIVersion: "v1", Kind: "ConfigMap", Name: "app"}
		w.api.add(group("other.example", serves("v1", "ConfigMap")))
		r := w.receiver("team-a", "github", "deployer", core, anyGroup("ConfigMap", "app"))
		first, second := w.send(trigger(r, r.Targets[0])), w.send(trigger(r, r.Targets[1]))
		pass(3 * time.Second)
		w.want(first, "done")
		w.want(second, "held") // the group cannot be known
	})
}

// An API server that hangs on discovery delays no trigger for a known kind. Fails when a worker waits for the answer without a bound,
// when it waits with a lock that others need, or when each trigger begins a discovery request of its own.
func TestDiscoveryThatHangsHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Workers = 2 })
		defer w.stop()
		w.want(w.hookAfter(w.receiver("team-b", "first", "deployer", repo("first")), time.Second), "done")
		pass(10 * time.Second)
		var mu sync.Mutex
		var longest time.Duration
		before := w.api.questions()
		w.api.discover(func(ctx context.Context) error {
			began := time.Now()
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			longest = max(longest, time.Since(began))
			return ctx.Err()
		})
		var stuck []*fakeHold
		for i := range 200 {
			hung := event.Target{APIVersion: "hung.example/v1", Kind: "Widget", Name: fmt.Sprint("w-", i)}
			if i%2 == 0 {
				hung.APIVersion = ""
			}
			stuck = append(stuck, w.hook(w.receiver("team-a", fmt.Sprint("r-", i), "deployer", hung)))
		}
		pass(300 * time.Millisecond)
		for i := range 20 {
			h := w.hook(w.receiver("team-b", "github", "deployer", repo(fmt.Sprint("app-", i))))
			pass(2 * time.Second)
			w.want(h, "done")
		}
		if w.api.discover(nil); longest > 5*time.Second {
			t.Errorf("a request was held for %v", longest)
		}
		if asked := w.api.questions() - before; asked == 0 || asked > int(40*time.Second/(5*time.Second))+2 {
			t.Errorf("asked %d times in 40 s", asked)
		}
		for _, h := range stuck {
			w.want(h, "held")
		}
	})
}

// hookAfter calls hook and lets d pass.
func (w *world) hookAfter(r Receiver, d time.Duration) *fakeHold {
	h := w.hook(r)
	pass(d)
	return h
}

// T4: nothing is lost for lack of an answer. Fails when the lack is treated as a refusal, which ends after ten minutes.
func TestT4AKindIsLookedUpUntilTheServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.api.add(group("a.example", serves("v1", "Widget")))
		w.api.discover(func(context.Context) error { return errors.New("the API server is away") })
		h := w.hook(w.receiver("team-a", "github", "deployer", anyGroup("Widget", "app")))
		pass(time.Hour)
		w.want(h, "held")
		if denied := w.health("team-a/github").Denied; len(denied) != 0 {
			t.Errorf("shown as a refusal: %+v", denied)
		}
		w.api.discover(nil)
		pass(2 * time.Minute)
		w.want(h, "done")
	})
}

// Fails when a kind that moved to another group between claim and write is written in the new group, in another object's slot.
func TestTheGroupOfAClaimIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.api.add(group("a.example", serves("v1", "Widget")))
		w.api.respond(always(http.StatusNotFound)) // the next one asks discovery again
		r := w.receiver("team-a", "github", "deployer", anyGroup("Widget", "app"))
		w.hook(r)
		pass(20 * time.Second)
		w.api.respond(always(http.StatusForbidden))
		w.hook(r)
		pass(2 * time.Second)
		w.api.add(group("b.example", serves("v1", "Widget")))
		w.opts.Catalogue.Doubt("team-a")
		pass(2 * time.Minute)
		if paths := w.api.paths(); len(paths) != 1 || !strings.HasPrefix(paths[0], "/apis/a.example/") {
			t.Errorf("written: %v", paths)
		}
		second := w.hook(r) // it claims the other object as well
		w.api.respond(nil)
		pass(2 * time.Second)
		w.want(second, "held")
		pass(refusedFor)
		w.want(second, "done")
		if n := len(w.api.paths()); n != 2 {
			t.Errorf("written: %v", w.api.paths())
		}
	})
}

// T4: fails when the page that the API server answers for a version that it no longer serves is taken for its word that there is no such object: the
// webhooks until the next discovery would be lost in silence.
func TestT4AVersionThatIsNoLongerServedLosesNoWebhook(t *testing.T) {
	for name, c := range map[string]struct{ version, want string }{
		"that the server chose":     {"", "done"},
		"that the Receiver demands": {"a.example/v1beta1", "held"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				w.api.add(group("a.example", serves("v1beta1", "Widget")))
				target := anyGroup("Widget", "app")
				target.APIVersion = c.version
				r := w.receiver("team-a", "github", "deployer", target)
				w.want(w.hookAfter(r, 20*time.Second), "done")
				w.api.add(group("a.example", serves("v1", "Widget")))
				w.api.respond(func(p patch) (int, http.Header) {
					if strings.HasPrefix(p.path, "/apis/a.example/v1beta1/") {
						return http.StatusNotFound, http.Header{"Content-Type": {"text/plain"}}
					}
					return http.StatusOK, nil
				})
				w.want(w.hookAfter(r, 30*time.Second), c.want)
				if written := slices.Contains(w.api.paths(), "/apis/a.example/v1/namespaces/team-a/widgets/app"); written != (c.want == "done") {
					t.Errorf("written: %v", w.api.paths())
				}
				if denied := w.health("team-a/github").Denied; (len(denied) == 1) != (c.want == "held") {
					t.Errorf("denied: %+v", denied)
				}
			})
		})
	}
}
