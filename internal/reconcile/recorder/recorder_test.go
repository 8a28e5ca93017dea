package recorder

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// pass advances the time of a synctest bubble, then waits until all goroutines are blocked.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestAnEventStandsOnTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := fake.NewClientset()
		r := New(&typedcorev1.EventSinkImpl{Interface: core.CoreV1().Events("")}, 50, discard())
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
		if o.Kind != "Provider" || o.APIVersion != "notification.toolkit.fluxcd.io/v1beta3" || o.Name != "chat" || o.UID != "u1" {
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

// slowSink takes as long for each Event as the rate of its client allows, and counts those of each namespace.
type slowSink struct {
	mu    sync.Mutex
	taken map[string]int
}

func (s *slowSink) Update(e *corev1.Event) (*corev1.Event, error)          { return s.Create(e) }
func (s *slowSink) Patch(e *corev1.Event, _ []byte) (*corev1.Event, error) { return s.Create(e) }

func (s *slowSink) Create(e *corev1.Event) (*corev1.Event, error) {
	<-time.After(time.Second / 50)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[e.Namespace]++
	return e, nil
}

// T6: a thousand objects of each of ten namespaces have an Event each second. Fails when another namespace's Events are dropped for them, or
// wait for more than its turn.
func TestT6TheEventsOfANamespaceCrowdOutNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hostile = 10
		sink := &slowSink{taken: map[string]int{}}
		r := New(sink, 50, discard())
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
			pass(time.Second)
		}
		if n := r.waiting.Load().Len(); n > eventsWaiting+(hostile+1)*eventsFree {
			t.Errorf("%d Events wait", n)
		}
		pass(2 * time.Second)
		cancel()
		wg.Wait()
		pass(time.Minute) // client-go writes what it has
		if sink.taken["team"] != 60 || sink.taken["hostile-0"] < 200 {
			t.Errorf("of 60 Events of one namespace %d were written, of 60,000 of another %d", sink.taken["team"], sink.taken["hostile-0"])
		}
	})
}
