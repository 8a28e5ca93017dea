package kube_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

// follower is an informer with two controllers, one of which looks at changes of the spec alone, and what each has found of the objects.
type follower struct {
	t        *testing.T
	api      *randomAPI
	informer *kube.Informer[*v1.Receiver]

	mu          sync.Mutex
	seen, specs map[kube.Key]state
}

func newFollower(t *testing.T, api *randomAPI) *follower {
	client, err := kube.NewAPI(&rest.Config{Host: "http://api", Transport: api, QPS: -1}, newScheme(t), v1.GroupVersion, discard())
	if err != nil {
		t.Fatal(err)
	}
	resource := kube.NewResource(client, "receivers", func() *v1.Receiver { return &v1.Receiver{} })
	byType := kube.Indexers[*v1.Receiver]{"type": func(r *v1.Receiver) []string { return []string{r.Spec.Type} }}
	return &follower{
		t: t, api: api, informer: kube.NewInformer(resource, "", byType, discard()),
		seen: map[kube.Key]state{}, specs: map[kube.Key]state{},
	}
}

// follow runs the informer and its controllers until ctx ends.
func (f *follower) follow(ctx context.Context, wg *sync.WaitGroup) {
	controller := func(into map[kube.Key]state, changed func(was, is *v1.Receiver) bool) {
		c := kube.NewController(kube.ControllerOptions[kube.Key]{
			Workers: 2, Parts: kube.Key.Parts, Log: discard(),
			Reconcile: func(_ context.Context, k kube.Key) error {
				f.mu.Lock()
				defer f.mu.Unlock()
				delete(into, k)
				if o, ok := f.informer.Get(k); ok {
					into[k] = stateOf(o)
				}
				return nil
			},
		})
		kube.Watch(c, f.informer, kube.Self[*v1.Receiver], changed)
		wg.Go(func() { c.Run(ctx) })
	}
	controller(f.seen, nil)
	controller(f.specs, func(was, is *v1.Receiver) bool { return !kube.SameSpec(was, is) })
	wg.Go(func() { f.informer.Run(ctx) })
}

// check compares the indexes of the cache with its objects.
func (f *follower) check() {
	f.t.Helper()
	synctest.Wait()
	types, namespaces := map[string]int{}, map[string]int{}
	for _, o := range f.informer.All() {
		types[o.Spec.Type]++
		namespaces[o.Namespace]++
		if found, ok := f.informer.Get(kube.KeyOf(o)); !ok || found != o {
			f.t.Errorf("%s is found as %v", kube.KeyOf(o), found)
		}
		if !slices.Contains(f.informer.By("type", o.Spec.Type), o) || !slices.Contains(f.informer.InNamespace(o.Namespace), o) {
			f.t.Errorf("%s is missing in an index", kube.KeyOf(o))
		}
	}
	for _, name := range append(typesOfReceivers, "") {
		if n := len(f.informer.By("type", name)); n != types[name] {
			f.t.Errorf("%d objects are indexed under type %q, want %d", n, name, types[name])
		}
	}
	if known := f.informer.Namespaces(); len(known) != len(namespaces) {
		f.t.Errorf("the namespaces are %v, want %v", known, namespaces)
	}
}

// equal compares what was found with the objects of the API server.
func (f *follower) equal() {
	f.t.Helper()
	want := f.api.states()
	cached := map[kube.Key]state{}
	for _, o := range f.informer.All() {
		cached[kube.KeyOf(o)] = stateOf(o)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !maps.Equal(cached, want) {
		f.t.Errorf("cached:\n%v, want\n%v", cached, want)
	}
	if !maps.Equal(f.seen, want) {
		f.t.Errorf("reconciled:\n%v, want\n%v", f.seen, want)
	}
	sameSpec := func(a, b state) bool { return a.uid == b.uid && a.kind == b.kind && a.bad == b.bad }
	if !maps.EqualFunc(f.specs, want, sameSpec) {
		f.t.Errorf("specs reconciled:\n%v, want\n%v", f.specs, want)
	}
}

// FuzzAnInformerFollowsTheCluster changes objects while requests fail, lists come in pages whose token expires or are cut, and watches end, lag
// or are too old; with an odd seed the API server's store is restored from a backup. At each step the indexes are those of the cached objects.
// In the end the cache, and what the controllers found, is what the API server has.
func FuzzAnInformerFollowsTheCluster(f *testing.F) {
	for seed := range uint64(12) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { followRandomly(t, seed) })
	})
}

func followRandomly(t *testing.T, seed uint64) {
	draw := rand.New(rand.NewPCG(seed, 1))
	api := newRandomAPI(seed)
	for range draw.IntN(12) {
		api.change()
	}
	f := newFollower(t, api)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	f.follow(ctx, &wg)
	var saved backupOfAPI
	for step := range 60 {
		switch {
		case seed%2 == 0:
		case step == 30:
			saved = api.backup()
		case step == 55:
			api.goAway()
			pass(2 * time.Minute) // the API servers are stopped meanwhile
			api.restore(saved)
		}
		pass(time.Duration(draw.Int64N(int64([]time.Duration{10 * time.Millisecond, time.Second, 20 * time.Second}[draw.IntN(3)]))))
		switch n := draw.IntN(20); {
		case n < 13:
			api.change()
		case n < 15:
			api.compact()
		case n < 16:
			api.cut()
		case n == 16:
			api.define()
		default:
			api.fail([]int{0, 10, 60, 100}[draw.IntN(4)])
		}
		f.check()
	}
	api.fail(10)
	api.change()
	api.compact()
	api.cut()
	pass(10 * time.Second) // it lists once more, or tries to
	api.fail(0)
	pass(3 * time.Minute)
	f.check()
	f.equal()
	cancel()
	wg.Wait()
	synctest.Wait()
	if n := api.open(); n > 0 {
		t.Errorf("%d watches are open", n)
	}
}

// state is what is compared of an object.
type state struct {
	uid, version int
	kind, label  string
	bad          bool
}

func stateOf(r *v1.Receiver) (s state) {
	_, _ = fmt.Sscan(string(r.UID), &s.uid)
	_, _ = fmt.Sscan(r.ResourceVersion, &s.version)
	s.kind, s.label, s.bad = r.Spec.Type, r.Labels["of"], kube.IsUndecodable(r)
	return s
}
