package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// newTag POSTs the controller's event about the tenant's ImagePolicy when it found the tag.
func (s *fixture) newTag(t *env.Tenant, tag string) {
	s.Helper()
	s.PostEvent(t, "ImagePolicy", "app", "info", "Succeeded", "Latest image tag resolved to "+tag, tag)
}

// subscribed makes a Receiver that names the ImageUpdateAutomation "app" for events about the ImagePolicy "app", and
// waits until the process knows them all.
func (s *fixture) subscribed(t *env.Tenant) {
	s.Helper()
	s.Must(t.ImageReceiver(s.Ctx, "app"))
	known := 0
	s.Must(env.Eventually(s.Within(30*time.Second), func(ctx context.Context) error {
		known++
		s.newTag(t, fmt.Sprintf("0.0.%d", known))
		_, err := t.WaitRequested(s.Within(2*time.Second), "ImageUpdateAutomation", "app", time.Time{}.Add(1))
		return err
	}))
}

// eventCounts is the part of status.deliveries about events.
type eventCounts struct {
	Accepted, Folded, Refused int
	Last, LastError           struct {
		Time           time.Time
		Result, Reason string
	}
}

// counted waits until the status of the Receiver "app" satisfies want.
func (s *fixture) counted(t *env.Tenant, want func(eventCounts) bool) {
	s.Helper()
	s.Must(env.Eventually(s.Within(30*time.Second), func(context.Context) error {
		var got eventCounts
		if raw := s.deliveries(t, "app", &got); !want(got) {
			return fmt.Errorf("status.deliveries is %s", raw)
		}
		return nil
	}))
}

// E1, T1: fails when the table of subscriptions is not keyed by namespace, or when a Receiver whose source is of another
// namespace is served.
func TestSubscribeAnEventTriggersInItsOwnNamespace(t *testing.T) {
	s := setUp(t)
	other := s.NewTenant()
	s.Must(other.ImageReceiver(s.Ctx, "app"))
	s.Must(other.Object(s.Ctx, "Receiver", "spy", nil, strings.Replace(env.ImageReceiver("app"),
		`"name":"app"}],`, `"name":"app","namespace":"`+s.Tenant.Namespace+`"}],`, 1)))
	s.Condition(other, "Receiver", "spy", "Ready", metav1.ConditionFalse, "CrossNamespaceDenied")

	s.subscribed(s.Tenant)
	receiver := s.Read(s.Tenant, "Receiver", "app")
	if status := fmt.Sprint(receiver.Object["status"]); strings.Contains(status, "webhookPath") ||
		!strings.Contains(status, "Receiver initialized for events of 1 source") {
		t.Errorf("status: %s", status)
	}
	begin := time.Now()
	s.newTag(s.Tenant, "1.0.0")
	at := s.Requested(s.Tenant, "ImageUpdateAutomation", "app", begin)
	t.Logf("asked to reconcile %s after the event", at.Sub(begin).Round(time.Millisecond))
	s.counted(s.Tenant, func(d eventCounts) bool {
		return d.Accepted > 0 && d.Folded == 0 && d.Last.Result == "accepted" && !d.Last.Time.Before(begin.Truncate(time.Second))
	})

	// One event's triggers are published at once, so a trigger of the first event there would have been applied earlier.
	before, err := other.Requested(s.Ctx, "ImageUpdateAutomation", "app")
	s.Must(err)
	if !before.IsZero() {
		t.Errorf("another namespace's object was asked to reconcile at %s", before)
	}
	var none eventCounts
	if raw := s.deliveries(other, "app", &none); none != (eventCounts{}) {
		t.Errorf("in another namespace status.deliveries is %s", raw)
	}
}

// E9: fails when a trigger does not require that its object is known, or when its owner gets no report of a forged
// event.
func TestSubscribeAForgedUIDTriggersNothing(t *testing.T) {
	s := setUp(t)
	s.subscribed(s.Tenant)
	event, err := s.Tenant.Event(s.Ctx, "ImagePolicy", "app", "info", "Succeeded", "a forged tag", "6.6.6")
	s.Must(err)
	event["involvedObject"].(map[string]any)["uid"] = "forged"
	unknown := s.baseline("notifier_event_triggers_total", "result", "unknown")
	begin := time.Now()
	resp, err := s.Post(s.Ctx, event)
	s.Must(err)
	if resp.Status != http.StatusAccepted {
		t.Fatalf("POST: got %d", resp.Status)
	}
	s.Must(env.Eventually(s.Within(30*time.Second), unknown.grown))
	// The next event triggers, and by then the forged one would have: triggers of one namespace are applied in order.
	requests := s.watchRequests(s.Tenant, "ImageUpdateAutomation", "app")
	sent := time.Now()
	s.newTag(s.Tenant, "1.0.0")
	s.Requested(s.Tenant, "ImageUpdateAutomation", "app", sent)
	for _, at := range requests() {
		if at.After(begin) && at.Before(sent) {
			t.Errorf("a forged event asked for a reconcile at %s", at)
		}
	}
	s.counted(s.Tenant, func(d eventCounts) bool {
		return d.Accepted > 0 && d.Refused > 0 && !d.LastError.Time.Before(begin.Truncate(time.Second)) &&
			d.LastError.Result == "unknown" && d.LastError.Reason == "no object is known of the event's kind, name and UID"
	})
}

// The loop check: the test is the controller whose object causes an event at each request. Fails when rounds are not
// counted, when the condition does not reach the Receiver, or when an edit does not end it.
func TestSubscribeALoopStopsAndIsShown(t *testing.T) {
	s := setUp(t)
	s.subscribed(s.Tenant)
	looping := func(ctx context.Context) (bool, string) {
		obj, err := s.Tenant.Get(ctx, "Receiver", "app")
		s.Must(err)
		conditions, err := env.Conditions(obj)
		s.Must(err)
		c := meta.FindStatusCondition(conditions, "LoopDetected")
		if c == nil || c.Status != metav1.ConditionTrue {
			return false, ""
		}
		return true, c.Message
	}
	rounds, message := 0, ""
	for stopped := false; !stopped; rounds++ {
		if rounds > 25 {
			t.Fatalf("still going round after %d rounds", rounds)
		}
		sent := time.Now()
		s.newTag(s.Tenant, fmt.Sprintf("1.0.%d", rounds))
		s.Must(env.Eventually(s.Within(30*time.Second), func(ctx context.Context) error {
			if stopped, message = looping(ctx); stopped {
				return nil
			}
			at, err := s.Tenant.Requested(ctx, "ImageUpdateAutomation", "app")
			if err == nil && at.Before(sent) {
				err = fmt.Errorf("neither asked to reconcile since %s nor stopped", sent)
			}
			return err
		}))
	}
	t.Logf("stopped in round %d: %s", rounds, message)
	if rounds < 9 { // the event of subscribed was the first
		t.Errorf("stopped after %d rounds", rounds)
	}
	for _, want := range []string{`ImagePolicy "app"`, "spec.eventSources", "spec.events"} {
		if !strings.Contains(message, want) {
			t.Errorf("LoopDetected does not mention %s: %s", want, message)
		}
	}
	s.Condition(s.Tenant, "Receiver", "app", "Ready", metav1.ConditionTrue, "Succeeded")
	// While it is stopped nothing triggers.
	held := s.baseline("notifier_event_triggers_total", "result", "held")
	before, err := s.Tenant.Requested(s.Ctx, "ImageUpdateAutomation", "app")
	s.Must(err)
	s.newTag(s.Tenant, "2.0.0")
	s.Must(env.Eventually(s.Within(30*time.Second), held.grown))
	if at, err := s.Tenant.Requested(s.Ctx, "ImageUpdateAutomation", "app"); err != nil || !at.Equal(before) {
		t.Errorf("asked to reconcile at %s while stopped, error %v", at, err)
	}
	s.counted(s.Tenant, func(d eventCounts) bool {
		return d.Folded >= 2 && d.Accepted >= d.Folded+10 && d.Last.Result == "folded" // the event that stopped it was the first
	})
	// An edit ends it, and the delayed events trigger.
	edited := time.Now()
	s.Must(s.Tenant.Object(s.Ctx, "Receiver", "app", nil, strings.Replace(env.ImageReceiver("app"), "{", `{"events":["Other"],`, 1)))
	s.Requested(s.Tenant, "ImageUpdateAutomation", "app", edited)
	s.Condition(s.Tenant, "Receiver", "app", "LoopDetected", metav1.ConditionFalse, "Succeeded")
}
