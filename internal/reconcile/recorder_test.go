package reconcile

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestAnEventStandsOnTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := fake.NewClientset()
		r := NewRecorder(fakeEvents(core), discard())
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
