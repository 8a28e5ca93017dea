package kube_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"notifier/internal/reconcile/kube"
)

// sourceV1 is a served API version, with the kind GitRepository.
const sourceV1 = "source.toolkit.fluxcd.io/v1"

// fakeDiscovery serves groups and counts the questions.
type fakeDiscovery struct {
	mu     sync.Mutex
	asked  int
	groups []apidiscovery.APIGroupDiscovery
	// answer, if any, returns the error of a question, nil for none.
	answer func(context.Context) error
}

func (d *fakeDiscovery) All(ctx context.Context) ([]apidiscovery.APIGroupDiscovery, error) {
	d.mu.Lock()
	d.asked++
	groups, answer := d.groups, d.answer
	d.mu.Unlock()
	if answer != nil {
		if err := answer(ctx); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

func (d *fakeDiscovery) set(answer func(context.Context) error, groups ...apidiscovery.APIGroupDiscovery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = answer
	if groups != nil {
		d.groups = groups
	}
}

func (d *fakeDiscovery) questions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// serving returns a group with versions of one namespaced kind, in this order of preference.
func serving(group, kind, resource string, versions ...string) apidiscovery.APIGroupDiscovery {
	g := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: group}}
	for _, v := range versions {
		g.Versions = append(g.Versions, apidiscovery.APIVersionDiscovery{Version: v, Resources: []apidiscovery.APIResourceDiscovery{{
			Resource: resource, ResponseKind: &metav1.GroupVersionKind{Kind: kind}, Scope: apidiscovery.ScopeNamespace, Verbs: []string{"patch"},
		}}})
	}
	return g
}

func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// look is a catalogue in the bubble of one test.
type look struct {
	*kube.Catalogue
	t   *testing.T
	api *fakeDiscovery
}

// catalogued runs a test with a running catalogue of a cluster that serves GitRepository and Widget.
func catalogued(t *testing.T, play func(t *testing.T, l look)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := &fakeDiscovery{groups: []apidiscovery.APIGroupDiscovery{
			serving("source.toolkit.fluxcd.io", "GitRepository", "gitrepositories", "v1"), serving("a.example", "Widget", "widgets", "v2", "v1"),
		}}
		c := kube.NewCatalogue(api)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() {
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		play(t, look{c, t, api})
	})
}

// ask looks a kind up for a namespace, and fails the test unless the answer is want.
func (l look) ask(namespace, version, kind string, want error) {
	l.t.Helper()
	if _, err := l.Resource(l.t.Context(), namespace, version, kind); !errors.Is(err, want) {
		l.t.Fatalf("%s %s: %v", version, kind, err)
	}
	synctest.Wait()
}

// asked fails the test unless the API server was asked want times.
func (l look) asked(want int) {
	l.t.Helper()
	if n := l.api.questions(); n != want {
		l.t.Errorf("asked %d times, want %d", n, want)
	}
}

// Fails when answers are not kept, when a missing kind is asked for each time, and when an answer is kept for ever.
func TestDiscoveryIsAskedRarely(t *testing.T) {
	catalogued(t, func(t *testing.T, l look) {
		for range 90 { // 9 s
			for _, version := range []string{sourceV1, ""} {
				l.ask("team-a", version, "GitRepository", nil)
				l.ask("team-a", version, "Absent", kube.ErrNotServed)
				l.Doubt("team-a")
			}
			pass(100 * time.Millisecond)
		}
		l.asked(1)
		pass(10 * time.Second)
		l.ask("team-a", sourceV1, "GitRepository", nil) // doubted
		l.asked(2)
		pass(10 * time.Minute)
		l.api.set(func(context.Context) error { return errors.New("away") })
		l.ask("team-a", sourceV1, "GitRepository", nil) // asked in the background, and the known answer stays in use
		l.ask("team-a", sourceV1, "GitRepository", nil)
		l.asked(3)
	})
}

// A tenant whose object is missing causes a new question about the answer that all tenants share. Fails when a known kind does not
// count while the answer is awaited, and when a lack of knowledge is mistaken for an answer.
func TestKnownKindsCountWhileTheAnswerIsAwaited(t *testing.T) {
	catalogued(t, func(t *testing.T, l look) {
		l.ask("team-a", sourceV1, "GitRepository", nil)
		pass(10 * time.Second)
		l.api.set(hang)
		l.Doubt("team-a")
		for range 2 { // at the beginning of the question, and long after
			for _, version := range []string{sourceV1, ""} {
				began := time.Now()
				l.ask("team-a", version, "GitRepository", nil)
				l.ask("team-a", version, "Absent", kube.ErrNotAnswered)
				if took := time.Since(began); took > 250*time.Millisecond {
					t.Errorf("waited %v for a server that hangs", took)
				}
			}
			pass(time.Second)
		}
	})
}

// T6: fails when each look-up of a kind that a namespace invents causes a question, or when another namespace, whose kind was installed
// just now, waits for that.
func TestT6KindsThatANamespaceInventsAreAskedForAtItsOwnPace(t *testing.T) {
	catalogued(t, func(t *testing.T, l look) {
		for i := range 3600 { // an hour
			l.ask("team-a", fmt.Sprint("a.example/v", i%50+10), "Invented", kube.ErrNotServed)
			pass(time.Second)
		}
		if n := l.api.questions(); n < 60 || n > 1+6+60 {
			t.Errorf("asked %d times in an hour", n)
		}
		l.api.set(nil, serving("b.example", "Gadget", "gadgets", "v1"))
		pass(10 * time.Second)
		l.ask("team-b", "b.example/v1", "Gadget", nil)
	})
}

// T4: a lack of an answer is no answer. Fails when a version whose resources the API server could not find out counts as serving none,
// and when the lack for one group affects another's kinds.
func TestT4AVersionThatTheServerCouldNotAskIsNotAnswered(t *testing.T) {
	catalogued(t, func(t *testing.T, l look) {
		broken := serving("broken.example", "Widget", "widgets", "v1")
		broken.Versions[0].Resources, broken.Versions[0].Freshness = nil, apidiscovery.DiscoveryFreshnessStale
		l.api.set(nil, serving("source.toolkit.fluxcd.io", "GitRepository", "gitrepositories", "v1"), broken)
		l.ask("team-a", "broken.example/v1", "Widget", kube.ErrNotAnswered)
		l.ask("team-a", "broken.example/v2", "Widget", kube.ErrNotServed)
		l.ask("team-a", "", "Widget", kube.ErrNotServed)
		l.ask("team-a", sourceV1, "GitRepository", nil)
		kind := schema.GroupKind{Group: "broken.example", Kind: "Widget"}
		if _, _, err := l.Preferred(t.Context(), time.Time{}, kind, "widgets"); !errors.Is(err, kube.ErrNotAnswered) {
			t.Errorf("got %v", err)
		}
	})
}

// Fails when the answer is from before the wanted time, when several questions are asked although one suffices, or when a failure is
// not returned.
func TestThePreferredVersionIsAsNewAsItIsWanted(t *testing.T) {
	catalogued(t, func(t *testing.T, l look) {
		widget := schema.GroupKind{Group: "a.example", Kind: "Widget"}
		preferred := func(since time.Time, kind schema.GroupKind) string {
			t.Helper()
			got, served, err := l.Preferred(t.Context(), since, kind, "widgets")
			if err != nil || served != (got != schema.GroupVersionResource{}) {
				t.Errorf("got %v, %v, %v", got, served, err)
			}
			return got.Version
		}
		start := time.Now()
		got := []string{
			preferred(start, widget), preferred(start, schema.GroupKind{Group: "b.example", Kind: "Widget"}), preferred(time.Time{}, widget),
		}
		if diff := cmp.Diff([]string{"v2", "", "v2"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		l.asked(1)
		pass(time.Second)
		l.api.set(nil, serving("a.example", "Widget", "widgets", "v3"))
		if got := preferred(time.Now(), widget); got != "v3" {
			t.Errorf("got %s, which is older than wanted", got)
		}
		l.asked(2)
		pass(time.Second)
		l.api.set(hang)
		if _, _, err := l.Preferred(t.Context(), time.Now(), widget, "widgets"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// Fails when a doubt is forgotten by the answer to a question that was asked before it: the definition was replaced after that, and writes would
// go to the former version for ten minutes.
func TestADoubtOutlivesTheQuestionUnderWay(t *testing.T) {
	catalogued(t, func(t *testing.T, l look) {
		l.ask("team-a", sourceV1, "GitRepository", nil)
		pass(10 * time.Second)
		answer := make(chan struct{})
		l.api.set(func(context.Context) error {
			<-answer
			return nil
		})
		l.ask("team-a", "", "Absent", kube.ErrNotAnswered)
		l.Doubt("team-a")
		close(answer)
		synctest.Wait()
		l.asked(2)
		l.ask("team-a", sourceV1, "GitRepository", nil)
		pass(10 * time.Second)
		l.ask("team-a", sourceV1, "GitRepository", nil)
		l.asked(3)
	})
}
