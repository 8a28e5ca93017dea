package recorder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// pass advances the time of a synctest bubble, then waits until all goroutines are blocked.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// fakeSink is a Sink over client-go's fake.
type fakeSink struct{ core *fake.Clientset }

func (f fakeSink) Create(ctx context.Context, e *corev1.Event) (*corev1.Event, error) {
	return f.core.CoreV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
}

func (f fakeSink) Patch(ctx context.Context, e *corev1.Event, data []byte) (*corev1.Event, error) {
	return f.core.CoreV1().Events(e.Namespace).Patch(ctx, e.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestAnEventStandsOnTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := fake.NewClientset()
		r := New(fakeSink{core}, discard())
		r.Event("Alert", "team-a", "early", "u", "Normal", "Succeeded", "before Run, dropped")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = r.Run(ctx) })
		synctest.Wait()
		r.Event("Provider", "team-a", "chat", "u1", "Warning", "DeliveryFailed", strings.Repeat("ä", 1000))
		r.Event("Secret", "team-a", "chat", "u2", "Normal", "Succeeded", "a kind that is not ours")
		pass(time.Second)
		cancel()
		wg.Wait()
		r.Event("Alert", "team-a", "late", "u", "Normal", "Succeeded", "after Run, dropped")
		list, err := core.CoreV1().Events("team-a").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("got %d events, %v", len(list.Items), err)
		}
		e := list.Items[0]
		o := e.InvolvedObject
		if o.Kind != "Provider" || o.APIVersion != "notification.toolkit.fluxcd.io/v1" || o.Name != "chat" || o.UID != "u1" {
			t.Errorf("object: %+v", o)
		}
		if e.Type != "Warning" || e.Reason != "DeliveryFailed" || e.Source.Component != "notification-controller" {
			t.Errorf("event: %+v", e)
		}
		if len(e.Message) > 1024 || !utf8.ValidString(e.Message) || !strings.HasSuffix(e.Message, "…") {
			t.Errorf("message of %d bytes", len(e.Message))
		}
	})
}

// slowSink takes a twentieth of a second for each Event, and counts those of each namespace.
type slowSink struct {
	mu    sync.Mutex
	taken map[string]int
}

func (s *slowSink) Patch(ctx context.Context, e *corev1.Event, _ []byte) (*corev1.Event, error) {
	return s.Create(ctx, e)
}

func (s *slowSink) Create(_ context.Context, e *corev1.Event) (*corev1.Event, error) {
	<-time.After(time.Second / 20)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[e.Namespace]++
	return e, nil
}

// waitingEvents returns the number of Events that wait.
func (r *Recorder) waitingEvents() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		n += len(line)
	}
	return n
}

// T6: a thousand objects of each of ten namespaces have an Event each second. Fails when another namespace's Events are dropped for them, or
// wait for more than their turn, however slow the API server is.
func TestT6TheEventsOfANamespaceCrowdOutNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hostile = 10
		most := 0
		sink := &slowSink{taken: map[string]int{}}
		r := New(sink, discard())
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = r.Run(ctx) })
		synctest.Wait()
		for second := range 60 {
			for i := range hostile * 1000 {
				namespace := fmt.Sprint("hostile-", i%hostile)
				r.Event("Alert", namespace, fmt.Sprint("alert-", i), "u", "Warning", "DeliveryFailed", fmt.Sprint("no. ", second))
			}
			r.Event("Alert", "team", fmt.Sprint("alert-", second), "u", "Warning", "DeliveryFailed", "failed")
			most = max(most, r.waitingEvents())
			pass(time.Second)
		}
		if most == 0 || most > eventsWaiting+(hostile+1)*eventsFree {
			t.Errorf("%d Events wait", most)
		}
		pass(2 * time.Second)
		cancel()
		wg.Wait()
		if sink.taken["team"] != 60 || sink.taken["hostile-0"] < 100 {
			t.Errorf("of 60 Events of one namespace %d were written, of 60,000 of another %d", sink.taken["team"], sink.taken["hostile-0"])
		}
	})
}

// hangingSink answers no write of the namespaces that hang, as the API server while it waits for their admission webhook.
type hangingSink struct{ slowSink }

func (s *hangingSink) Create(ctx context.Context, e *corev1.Event) (*corev1.Event, error) {
	if strings.HasPrefix(e.Namespace, "hangs") {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.slowSink.Create(ctx, e)
}

// T6: fails when the Events of a namespace whose writes all time out take the writers, so that those of another wait.
func TestT6ANamespaceWhoseWritesHangHoldsUpNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &hangingSink{slowSink{taken: map[string]int{}}}
		r := New(sink, discard())
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = r.Run(ctx) })
		synctest.Wait()
		for i := range 100 {
			r.Event("Alert", fmt.Sprint("hangs-", i%2), fmt.Sprint("alert-", i), "u", "Warning", "DeliveryFailed", "failed")
		}
		pass(time.Second)
		for second := range 60 {
			r.Event("Alert", "team", fmt.Sprint("alert-", second), "u", "Warning", "DeliveryFailed", "failed")
			pass(time.Second)
			sink.mu.Lock()
			if n := sink.taken["team"]; n != second+1 {
				t.Fatalf("after %d s %d Events are written", second+1, n)
			}
			sink.mu.Unlock()
		}
		cancel()
		wg.Wait()
	})
}

// moodySink refuses the Events of team-b, fails three times as an API server that is away or starts, and keeps what it was asked for.
type moodySink struct{ asked []string }

func (s *moodySink) ask(how string, e *corev1.Event) (*corev1.Event, error) {
	s.asked = append(s.asked, how+" "+e.Namespace)
	switch {
	case e.Namespace == "team-b":
		return nil, apierrors.NewForbidden(corev1.Resource("events"), e.Name, errors.New("exceeded quota"))
	case len(s.asked) == 1:
		return nil, errors.New("connection refused")
	case len(s.asked) == 2:
		return nil, apierrors.NewServiceUnavailable("starting")
	case len(s.asked) == 3:
		return nil, apierrors.NewTooManyRequests("reading from etcd", 1)
	}
	return e, nil
}

func (s *moodySink) Create(_ context.Context, e *corev1.Event) (*corev1.Event, error) {
	return s.ask("create", e)
}

func (s *moodySink) Patch(_ context.Context, e *corev1.Event, _ []byte) (*corev1.Event, error) {
	return s.ask("patch", e)
}

// Fails when an Event is dropped while the API server cannot be reached, when one that it refuses is written again and again, when equal ones
// are not coalesced, or when an Event that is done keeps its place.
func TestAnEventIsWrittenUntilItIsTakenOrRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &moodySink{}
		r := New(sink, discard())
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = r.Run(ctx) })
		synctest.Wait()
		for _, namespace := range []string{"team-a", "team-a", "team-b"} {
			r.Event("Alert", namespace, "all", "u", "Warning", "DeliveryFailed", "failed")
			pass(time.Minute)
		}
		cancel()
		wg.Wait()
		if want := "[create team-a create team-a create team-a create team-a patch team-a create team-b]"; fmt.Sprint(sink.asked) != want {
			t.Errorf("asked %q, want %s", sink.asked, want)
		}
		if n, lines := r.places.Len(), len(r.lines); n != 0 || lines != 0 {
			t.Errorf("%d namespaces keep places, and %d lines", n, lines)
		}
	})
}

// T6. Eleven hundred objects of a namespace, more than client-go remembers, have an Event each second. Fails when that writes Events into etcd
// without end, at the rate of the client: they stay there for an hour.
func TestT6TheEventsOfANamespaceAreBoundedInRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &slowSink{taken: map[string]int{}}
		r := New(sink, discard())
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = r.Run(ctx) })
		synctest.Wait()
		const seconds = 60
		for range seconds {
			for i := range 1100 {
				r.Event("Alert", "team", fmt.Sprint("alert-", i), "u", "Warning", "DeliveryFailed", "failed")
			}
			pass(time.Second)
		}
		cancel()
		wg.Wait()
		if n, most := sink.taken["team"], eventsEach+seconds*eventsRate+1; n > most || n < most/2 {
			t.Errorf("%d Events are written in a minute, want at most %d", n, most)
		}
	})
}
