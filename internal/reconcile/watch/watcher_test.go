package watch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"notifier/internal/event"
)

func TestInformersComeAndGoWithTheirDefinitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		watcher, stop := w.replica(true)
		defer stop()
		if !watcher.HasSynced() {
			t.Error("an empty cluster is not synced")
		}
		w.put(kustomization{})
		if _, ok := watcher.Lookup("Kustomization", "team-a", "app"); ok {
			t.Error("found an object of a kind that is not defined")
		}

		w.define("Kustomization", "v1")
		pass(time.Minute)
		if object, ok := watcher.Lookup("Kustomization", "team-a", "app"); !ok || object.UID != "uid-1" {
			t.Errorf("got %v, %v after the definition came", object, ok)
		}

		w.undefine("Kustomization")
		pass(time.Minute)
		w.remove("app")
		if _, watched := watcher.Select("team-a", event.Target{Kind: "Kustomization", Name: "*"}); watched {
			t.Error("still watched without a definition")
		}
		if w.state.has(stateKey) {
			t.Error("the record outlives the definition")
		}

		w.define("Kustomization", "v1")
		w.put(kustomization{uid: "uid-2"})
		pass(time.Minute)
		w.wantTold("succeeded app r1")
	})
}

// Fails when examine compares neither version nor UID of the definition.
func TestAnInformerFollowsTheServedVersionAndTheDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		w.put(kustomization{})
		watcher, stop := w.replica(true)
		defer stop()
		kind := kindNamed("Kustomization")
		first := watcher.informerOf(kind)
		w.define("Kustomization", "v2", "v1")
		pass(time.Minute)
		second := watcher.informerOf(kind)
		if second == first || second.resource.Version != "v2" {
			t.Errorf("watching %v after the preferred version changed", second.resource)
		}
		w.undefine("Kustomization")
		w.define("Kustomization", "v2", "v1") // made again before anyone looked
		pass(time.Minute)
		if third := watcher.informerOf(kind); third == second {
			t.Error("still on the informer of the definition that is gone")
		}
		if !watcher.HasSynced() {
			t.Error("not synced")
		}
		w.wantTold()
	})
}

// Fails when a definition is examined only at its change: discovery follows later, and may still return the old version then.
func TestDiscoveryMayTellOfTheOldVersionAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		watcher, stop := w.replica(false)
		defer stop()
		w.define("Kustomization", "v1")
		pass(time.Second)
		w.discovery.serve(kindNamed("Kustomization"), "v2", "v1")
		pass(10 * time.Second)
		if in := watcher.informerOf(kindNamed("Kustomization")); in.resource.Version != "v2" {
			t.Errorf("still watching %v", in.resource)
		}
	})
}

// Fails when begin keeps the records of a kind that is no longer defined.
func TestRecordsOfAKindThatWentWhileDownAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		w.put(kustomization{})
		w.silent()()
		w.undefine("Kustomization")
		_, stop := w.replica(true)
		defer stop()
		pass(time.Minute)
		if w.state.has(stateKey) {
			t.Error("the record outlives the definition")
		}
	})
}

// Fails when a kind that is defined but not served is not asked for again.
func TestDiscoveryMayLagBehindTheDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		watcher, stop := w.replica(false)
		defer stop()
		w.define("Kustomization")
		pass(10 * time.Minute)
		w.discovery.serve(kindNamed("Kustomization"), "v1")
		pass(time.Minute)
		all := event.Target{APIVersion: "kustomize.toolkit.fluxcd.io/v1", Kind: "Kustomization", Name: "*"}
		if _, watched := watcher.Select("team-a", all); !watched {
			t.Error("not watched although served")
		}
	})
}

// Fails when HasSynced ignores kinds that were not examined.
func TestNotSyncedWhileTheServerCannotSayWhatItServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		w.discovery.err = errors.New("the API server is away")
		watcher, stop := w.replica(false)
		defer stop()
		if watcher.HasSynced() {
			t.Error("synced without a word from discovery")
		}
		w.discovery.mu.Lock()
		w.discovery.err = nil
		w.discovery.mu.Unlock()
		pass(time.Minute)
		if !watcher.HasSynced() {
			t.Error("not synced")
		}
	})
}

func TestAKindThatIsDefinedButNotServedDoesNotHoldUpReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization")
		watcher, stop := w.replica(false)
		defer stop()
		if !watcher.HasSynced() {
			t.Error("not synced")
		}
	})
}

// Fails when add has no bound, or when a change of the number does not set the gauge.
func TestNotesAreBoundedAndTheOldestGoFirst(t *testing.T) {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{})
	n := newPosts(gauge)
	kind, start := kindNamed("Kustomization"), time.Now()
	for i := range maxPosts + 100 {
		n.add(post{item: item{kind, "team-a", fmt.Sprint(i)}, uid: "u", outcome: event.OutcomeFailed, accepted: start})
	}
	one := item{kind, "team-a", "one"}
	for i := range 100 {
		n.add(post{item: one, uid: fmt.Sprint(i), outcome: event.OutcomeFailed, accepted: start.Add(time.Duration(i))})
	}
	of := func(it item) int {
		all, _ := n.items.Peek(it)
		return len(all)
	}
	oldest, newer := item{kind, "team-a", "0"}, item{kind, "team-a", fmt.Sprint(maxPosts + 99)}
	if testutil.ToFloat64(gauge) != maxPosts || of(one) != maxPostsPerObject || of(oldest) != 0 || of(newer) != 1 {
		t.Errorf("%d posts, %d of one object, %d of the oldest, %d of a newer one", n.n, of(one), of(oldest), of(newer))
	}
	tr := &transition{state: state{UID: "99", Outcome: event.OutcomeFailed}, object: &object{kind: kind}, observed: start}
	if n.take(one, tr, lastPublished{}, time.Time{}) == nil {
		t.Error("the newest post is gone")
	}
	if of(one) != 0 || testutil.ToFloat64(gauge) != maxPosts-maxPostsPerObject {
		t.Errorf("posts older than the one used stay: %d of the object, %d in all", of(one), n.n)
	}
	n.add(post{item: one, seq: 7})
	if n.drop(one, 7); of(one) != 0 || testutil.ToFloat64(gauge) != maxPosts-maxPostsPerObject {
		t.Errorf("posts before an event of a watcher stay: %d of the object, %d in all", of(one), n.n)
	}
}

func TestOptionsNameEveryFault(t *testing.T) {
	_, err := New(Options{})
	want := "watch options: Catalogue is missing\nEvents is missing\nLog is missing\nObjects is missing\n" +
		"Registerer is missing\nState is missing"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

// Fails when the objects are read before a start's first requests, when a kind counts as known before it is read, and when an
// unreadable kind is waited for without a bound.
func TestAKindIsPendingUntilItIsReadOrAMinuteLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		w.define("GitRepository", "v1")
		w.dynamic.PrependReactor("list", "gitrepositories", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("refused")
		})
		watcher := w.watcher()
		ctx, cancel := context.WithCancel(t.Context())
		begin, ended := make(chan struct{}), make(chan error)
		go func() { ended <- watcher.Run(ctx, begin) }()
		want := func(kustomization, repository bool) {
			t.Helper()
			synctest.Wait()
			got := [2]bool{watcher.Pending("Kustomization"), watcher.Pending("GitRepository")}
			if got != [2]bool{kustomization, repository} || watcher.Pending("Unknown") {
				t.Errorf("pending: %v", got)
			}
		}
		want(true, true)
		pass(10 * time.Second)
		want(true, true)
		close(begin)
		pass(time.Second)
		want(false, true)
		pass(time.Minute)
		want(false, false)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// T4, E2: fails when a kind is not Pending while another version of it is read, or a kind that was installed after the start: a filter would
// fail for the webhooks of that time, and an event would be taken for one about an unknown object. Fails also when it is for ever.
func TestAKindIsPendingWhileItIsReadAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		w.put(kustomization{})
		var refused atomic.Bool
		refuse := func(clienttesting.Action) (bool, runtime.Object, error) {
			return refused.Load(), nil, errors.New("not yet")
		}
		w.dynamic.PrependReactor("list", "kustomizations", refuse)
		w.dynamic.PrependReactor("list", "buckets", refuse)
		watcher, stop := w.replica(false)
		defer stop()
		is := func(when, kind string, pending, watched bool) {
			t.Helper()
			if _, ok := watcher.Objects("team-a", event.Target{Kind: kind, Name: "app"}); watcher.Pending(kind) != pending || ok != watched {
				t.Errorf("%s: %s is pending: %t, watched: %t, want %t, %t", when, kind, watcher.Pending(kind), ok, pending, watched)
			}
		}
		pass(2 * time.Minute)
		is("after the start", "Kustomization", false, true)
		is("after the start", "Bucket", false, false)
		refused.Store(true)
		w.define("Kustomization", "v2", "v1")
		w.define("Bucket", "v1")
		pass(10 * time.Second)
		is("being read", "Kustomization", true, false)
		is("being read", "Bucket", true, false)
		pass(time.Minute)
		is("unreadable for a minute", "Kustomization", false, false)
		refused.Store(false)
		pass(2 * time.Minute)
		is("read", "Kustomization", false, true)
		is("read", "Bucket", false, true)
	})
}

// T4, E2: fails when a kind is not Pending while it is read for the first time, because the API server was away since before the start for longer
// than a kind is awaited.
func TestAKindIsPendingWhileItIsReadAfterALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		w.put(kustomization{})
		back, read := make(chan struct{}), make(chan struct{})
		w.listing = func(ctx context.Context, kind *Kind) {
			wait := read
			if kind == definitions {
				wait = back
			}
			select {
			case <-wait:
			case <-ctx.Done():
			}
		}
		watcher, stop := w.replica(false)
		defer stop()
		is := func(when string, pending, watched bool) {
			t.Helper()
			synctest.Wait()
			_, ok := watcher.Objects("team-a", event.Target{Kind: "Kustomization", Name: "app"})
			if watcher.Pending("Kustomization") != pending || ok != watched {
				t.Errorf("%s it is pending: %t, watched: %t, want %t, %t", when, watcher.Pending("Kustomization"), ok, pending, watched)
			}
		}
		pass(2 * maxAwaited)
		is("after two minutes of an outage", false, false) // POSTs are taken meanwhile
		close(back)
		pass(maxAwaited / 2)
		is("while it is read", true, false)
		close(read)
		is("when it is read", false, true)
	})
}

// Fails when an object that is made, relabelled or deleted is not reported, when a start reports what it finds, and when a change of an
// object's outcome is reported.
func TestChangesOfTheSetOfObjectsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		w.put(kustomization{})
		watcher := w.watcher()
		var changed atomic.Int64
		watcher.opts.Changed = func(namespace string) {
			if namespace == "team-a" {
				changed.Add(1)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- watcher.Run(ctx, begun) }()
		is := func(when string, want int64) {
			t.Helper()
			pass(time.Minute)
			if n := changed.Swap(0); n != want {
				t.Errorf("%s: reported %d times, want %d", when, n, want)
			}
		}
		is("at the start", 0)
		w.put(kustomization{revision: "r2"})
		is("a new outcome", 0)
		w.put(kustomization{revision: "r2", labels: map[string]string{"a": "b"}})
		is("a label", 1)
		w.put(kustomization{name: "other"})
		is("a new object", 1)
		w.remove("other")
		is("a deletion", 1)
		w.define("GitRepository", "v1")
		is("a new kind without objects", 0)
		w.undefine("Kustomization")
		pass(time.Minute)
		w.define("Kustomization", "v1")
		is("a kind that is installed with an object", 1)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Fails when the objects of a kind that a start cannot read are not reported once they can be read.
func TestObjectsThatCanBeReadLateAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		w.put(kustomization{})
		var readable atomic.Bool
		w.dynamic.PrependReactor("list", "kustomizations", func(clienttesting.Action) (bool, runtime.Object, error) {
			return !readable.Load(), nil, errors.New("refused")
		})
		watcher := w.watcher()
		var changed atomic.Int64
		watcher.opts.Changed = func(string) { changed.Add(1) }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- watcher.Run(ctx, begun) }()
		pass(2 * maxAwaited)
		readable.Store(true)
		pass(2 * maxAwaited)
		if n := changed.Load(); n != 1 {
			t.Errorf("reported %d times, want once", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
