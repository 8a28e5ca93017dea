package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

// by returns the function that returns r.
func by(r Requests) func() Requests { return func() Requests { return r } }

// askedFor is a Requests that records the requests.
type askedFor struct {
	mu    sync.Mutex
	asked []string
	// errs are returned first, one for each request.
	errs   []error
	result view.ReplayResult
	// served is called at the end of each request, if it is not nil.
	served func()
}

func (a *askedFor) ask(what string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.served != nil {
		defer a.served()
	}
	a.asked = append(a.asked, what)
	if len(a.errs) == 0 {
		return nil
	}
	err := a.errs[0]
	a.errs = a.errs[1:]
	return err
}

func (a *askedFor) Replay(_ context.Context, namespace string, r view.ReplayRequest) (view.ReplayResult, error) {
	return a.result, a.ask(fmt.Sprintf("replay %s %s %s %s %s %v", namespace, r.Provider, r.Alert, r.State, r.Until.Sub(r.Since), r.IDs))
}

func (a *askedFor) Test(_ context.Context, namespace string, r view.TestRequest) (view.TestResult, error) {
	return view.TestResult{DeliveryID: "d1"}, a.ask("test " + namespace + " " + r.Provider + " " + r.Value)
}

func (a *askedFor) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.asked
	a.asked = nil
	return all
}

func asking(annotations map[string]string) func(*v1.Provider) {
	return func(p *v1.Provider) { p.Annotations = annotations }
}

// about returns the recorded Events of some reasons.
func (l *eventLog) about(reasons ...string) (found []string) {
	for _, e := range l.take() {
		if slices.ContainsFunc(reasons, func(r string) bool { return strings.Contains(e, " "+r+": ") }) {
			found = append(found, e)
		}
	}
	return found
}

// TestAnAnnotationIsActedOnOnceForEachValue fails when a value is handled again after another change, in the next term, or where the
// kind's definition lacks its status field. It fails when the request does not select the object's deliveries, or when the owner gets no
// Event.
func TestAnAnnotationIsActedOnOnceForEachValue(t *testing.T) {
	asks := &askedFor{result: view.ReplayResult{Replayed: 2}}
	kept := map[string][]byte{}
	given := settings{
		objects: []runtime.Object{newProvider("chat"), newAlert("mine")},
		change:  func(o *Options) { o.Requests = by(asks) },
		prepare: func(w *world) { w.feed.values = kept },
	}
	once := map[string]string{v1.ReplayAnnotation: "dead", v1.TestAnnotation: "1"}
	play(t, given, func(w *world) {
		if got := asks.take(); len(got) != 0 {
			t.Errorf("asked for nothing: %v", got)
		}
		w.apply(v1.ProviderKind, newProvider("chat", asking(once)))
		want := []string{"replay team-a chat  dead 0s []", "test team-a chat 1"}
		if got := asks.take(); !slices.Equal(got, want) {
			t.Errorf("asked %q", got)
		}
		told := w.events.about(replayedEvent, testedEvent)
		if len(told) != 2 || !strings.Contains(told[0], "Normal Replayed: 2 deliveries are on their way again") ||
			!strings.Contains(told[1], "delivery d1") {
			t.Errorf("told %q", told)
		}
		w.apply(v1.ProviderKind, newProvider("chat", asking(once), func(p *v1.Provider) { p.Spec.Channel = "other" }))
		if got := asks.take(); len(got) != 0 {
			t.Errorf("asked again: %q", got)
		}
		if s := w.live(v1.ProviderKind, "chat").(*v1.Provider).Status; s.LastHandledReplay != "dead" || s.LastHandledTest != "1" {
			t.Errorf("status %+v", s)
		}
		w.apply(v1.ProviderKind, newProvider("chat", asking(map[string]string{v1.ReplayAnnotation: "since=1h", v1.TestAnnotation: "1"})))
		w.apply(v1.AlertKind, newAlert("mine", func(a *v1.Alert) {
			a.Annotations = map[string]string{v1.ReplayAnnotation: " ab12, cd34", v1.TestAnnotation: "Alerts have none"}
		}))
		want = []string{"replay team-a chat   1h0m0s []", "replay team-a  mine  0s [ab12 cd34]"}
		if got := asks.take(); !slices.Equal(got, want) {
			t.Errorf("asked %q", got)
		}
		if s := w.live(v1.AlertKind, "mine").(*v1.Alert).Status; s.LastHandledReplay != " ab12, cd34" {
			t.Errorf("status %+v", s)
		}
	})
	given.objects = []runtime.Object{newProvider("chat", asking(map[string]string{v1.ReplayAnnotation: "since=1h", v1.TestAnnotation: "1"}))}
	play(t, given, func(*world) { // as if the API server had dropped the fields
		if got := asks.take(); len(got) != 0 {
			t.Errorf("asked again after a restart: %q", got)
		}
	})
	kept = map[string][]byte{}
	given.objects = []runtime.Object{newProvider("chat", asking(once), func(p *v1.Provider) {
		p.Status.LastHandledReplay, p.Status.LastHandledTest = "dead", "1"
	})}
	play(t, given, func(*world) {
		if got := asks.take(); len(got) != 0 {
			t.Errorf("asked again after the loss of the bus's data: %q", got)
		}
	})
	given.follower = true
	given.objects = []runtime.Object{newProvider("chat", asking(map[string]string{v1.TestAnnotation: "2"}))}
	play(t, given, func(*world) {
		if got := asks.take(); len(got) != 0 {
			t.Errorf("asked without leading: %q", got)
		}
	})
}

// TestARequestThatFailsIsTriedAgain fails when a value is stored before its request succeeded, or when a permanent error is retried.
func TestARequestThatFailsIsTriedAgain(t *testing.T) {
	soon := event.NewError(event.Retry, "too_often", "too often", nil)
	soon.RetryAfter = time.Second
	for name, tc := range map[string]struct {
		errs  []error
		asked int
		told  string
	}{
		"no worker":     {[]error{view.ErrNoWorker, errors.New("bus away SECRET")}, 3, "Normal Replayed"},
		"a rate":        {[]error{soon}, 2, "Normal Replayed"},
		"what is final": {[]error{event.NewError(event.Permanent, "refused", "no such thing", nil)}, 1, "Warning ReplayRefused: no such thing"},
	} {
		t.Run(name, func(t *testing.T) {
			asks := &askedFor{errs: tc.errs, result: view.ReplayResult{Replayed: 1}}
			play(t, settings{change: func(o *Options) { o.Requests = by(asks) }}, func(w *world) {
				w.apply(v1.ProviderKind, newProvider("chat", asking(map[string]string{v1.ReplayAnnotation: "dead"})))
				w.settle()
				if got := asks.take(); len(got) != tc.asked {
					t.Errorf("asked %q", got)
				}
				if told := w.events.about(replayedEvent, notReplayed); len(told) != 1 || !strings.Contains(told[0], tc.told) {
					t.Errorf("told %q", told)
				}
			})
		})
	}
}

// TestAReplayOfNothingSaysWhy fails when the Event about a replay that selects nothing has no reason.
func TestAReplayOfNothingSaysWhy(t *testing.T) {
	play(t, settings{change: func(o *Options) { o.Requests = by(&askedFor{}) }}, func(w *world) {
		w.apply(v1.ProviderKind, newProvider("chat", asking(map[string]string{v1.ReplayAnnotation: "dead"})))
		if told := w.events.about(notReplayed); len(told) != 1 || !strings.Contains(told[0], "nothing that is kept is selected") {
			t.Errorf("told %q", told)
		}
	})
}

// TestARequestIsNotServedAfterTheTerm fails when a process that was stopped, and goes on in the moment before it notices that its term is over,
// serves a request that the next worker has served, or replaces what that one has noted.
func TestARequestIsNotServedAfterTheTerm(t *testing.T) {
	var lapsed atomic.Bool
	asks := &askedFor{result: view.ReplayResult{Replayed: 1}}
	asks.served = func() { lapsed.Store(true) }
	play(t, settings{follower: true, change: func(o *Options) { o.Requests = by(asks) }}, func(w *world) {
		ctx, end := context.WithCancel(event.WithFence(w.t.Context(), func() bool { return !lapsed.Load() }))
		var term sync.WaitGroup
		defer term.Wait()
		defer end()
		term.Go(func() {
			if err := w.Lead(ctx); err != nil {
				t.Error(err)
			}
		})
		w.settle()
		w.apply(v1.ProviderKind, newProvider("chat", asking(map[string]string{v1.ReplayAnnotation: "dead", v1.TestAnnotation: "1"})))
		if got := asks.take(); len(got) != 1 || len(w.feed.values) != 0 {
			t.Errorf("asked %q, noted %q", got, w.feed.values)
		}
	})
}

// TestAnAnnotationThatIsNotUnderstoodSaysHowItIsWritten fails when parseReplay accepts more than its three forms, or has no bounds.
func TestAnAnnotationThatIsNotUnderstoodSaysHowItIsWritten(t *testing.T) {
	now := time.Now()
	for _, value := range []string{
		"all", "DEAD", "since", "since=", "since=-1h", "since=0s", "since=169h", "since=8d", "since=-1d", "since=1", "ab12,", ",", "ab1", "xyz", "ab 12",
		strings.Repeat("ab", 40), strings.Repeat("ab12,", 1000) + "ab12", "\x00", "ab12\nab12",
	} {
		if r, err := parseReplay(value, now); err == nil {
			t.Errorf("%.20q is %+v", value, r)
		}
	}
	asks := &askedFor{}
	play(t, settings{change: func(o *Options) { o.Requests = by(asks) }}, func(w *world) {
		w.apply(v1.ProviderKind, newProvider("chat", asking(map[string]string{v1.ReplayAnnotation: strings.Repeat("all ", 200)})))
		told := w.events.about(notReplayed)
		if len(told) != 1 || !strings.Contains(told[0], "Warning") || !strings.Contains(told[0], `IDs of deliveries`) ||
			!strings.Contains(told[0], `"dead"`) || !strings.Contains(told[0], `"since=1h"`) || len(asks.take()) != 0 {
			t.Errorf("told %q", told)
		}
		if s := w.live(v1.ProviderKind, "chat").(*v1.Provider).Status; len(s.LastHandledReplay) > maxMark || s.LastHandledReplay == "" {
			t.Errorf("status %+v", s)
		}
	})
}

// TestARefusedReplayIsReported fails when the reasons of refusals are omitted or are unbounded, or when refusals without a reason are not counted.
func TestARefusedReplayIsReported(t *testing.T) {
	r := view.ReplayResult{Replayed: 1, More: true, NotReplayed: 300, Refused: map[string]string{}}
	for i := range 9 {
		r.Refused[fmt.Sprint("d", i)] = "why"
	}
	want := "1 delivery is on its way again; 300 could not be replayed; d0: why; d1: why; d2: why; there are more: set the annotation to another value"
	if got := replayTold(r); got != want {
		t.Errorf("%q", got)
	}
}

// slow is an askedFor whose replays of team-a take half a minute each.
type slow struct{ askedFor }

func (s *slow) Replay(ctx context.Context, namespace string, r view.ReplayRequest) (view.ReplayResult, error) {
	if namespace == "team-a" {
		<-time.After(30 * time.Second)
	}
	return s.askedFor.Replay(ctx, namespace, r)
}

// TestT6ANamespacesSlowRequestsWaitForEachOther fails when a namespace's many slow requests delay another's.
func TestT6ANamespacesSlowRequestsWaitForEachOther(t *testing.T) {
	asks := &slow{askedFor{result: view.ReplayResult{Replayed: 1}}}
	replay := asking(map[string]string{v1.ReplayAnnotation: "dead"})
	var all []runtime.Object
	for i := range 3 * askWorkers {
		all = append(all, newProvider(fmt.Sprint("chat-", i), replay))
	}
	play(t, settings{objects: all, change: func(o *Options) { o.Requests = by(asks) }}, func(w *world) {
		w.apply(v1.ProviderKind, newProvider("chat", replay, func(p *v1.Provider) { p.Namespace = "team-b" }))
		<-time.After(2 * askPause)
		w.settle()
		soon := asks.take()
		if !slices.Contains(soon, "replay team-b chat  dead 0s []") {
			t.Errorf("asked %q", soon)
		}
		<-time.After(3 * askWorkers * (30*time.Second + askPause))
		w.settle()
		if n := len(soon) + len(asks.take()); n != 3*askWorkers+1 {
			t.Errorf("%d of %d are served after their time", n, 3*askWorkers+1)
		}
	})
}
