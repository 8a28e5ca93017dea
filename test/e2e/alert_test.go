package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/harness"
	"notifier/test/world"
)

// failure POSTs a failure of the tenant's Kustomization "app" with the message, at a revision of its own.
func (s *stage) failure(message string) {
	s.Helper()
	s.post(s.tenant, "app", "error", "BuildFailed", message, "main@sha1:"+message, http.StatusAccepted)
}

// alertSpec is the spec of an Alert on every Kustomization. Fields are added, each with a leading comma.
func alertSpec(provider, fields string) string {
	return `{"providerRef":{"name":"` + provider + `"},"eventSources":[` + anyKustomization + `]` + fields + `}`
}

// messagesWith counts the messages at the sink that hold a text.
func messagesWith(s *stage, sink *harness.Sink, text string) int {
	s.Helper()
	count := 0
	for _, m := range messages(s, sink) {
		if strings.Contains(m, text) {
			count++
		}
	}
	return count
}

// Fails when a pattern that does not compile lets everything or nothing through in silence, or takes other Alerts along.
func TestABadPatternIsShownAndHarmsNoOtherAlert(t *testing.T) {
	s := play(t)
	bad, good := s.newSink(), s.newSink()
	s.must(s.tenant.Object(s.ctx, "Kustomization", "app", nil, ""))
	s.must(s.tenant.Alert(s.ctx, "bad", "generic", bad.URL("/"), anyKustomization))
	s.must(s.tenant.Alert(s.ctx, "good", "generic", good.URL("/"), anyKustomization))
	s.must(s.tenant.Object(s.ctx, "Alert", "bad", nil, alertSpec("bad", `,"exclusionList":["fine","(unclosed"]`)))
	c := s.condition("Alert", "bad", "Ready", metav1.ConditionFalse, "InvalidConfig")
	if !strings.Contains(c.Message, "exclusionList[1]") {
		t.Errorf("the message does not say which pattern is bad: %s", c.Message)
	}
	s.must(harness.Eventually(s.within(soon), func(context.Context) error { return s.hasEvent("Alert", "bad", "InvalidConfig") }))
	s.failure("one")
	s.waitMessages(good, "one")
	// Mended, it serves again.
	s.must(s.tenant.Object(s.ctx, "Alert", "bad", nil, alertSpec("bad", `,"exclusionList":["fine","closed"]`)))
	s.condition("Alert", "bad", "Ready", metav1.ConditionTrue, "")
	s.failure("two is closed")
	s.failure("three")
	s.waitMessages(bad, "three")
	s.waitMessages(good, "two", "three")
	if messagesWith(s, bad, "two") != 0 {
		t.Error("an excluded message was sent")
	}
}

// Fails when the cap is not checked or is one off, or when the patterns of the two lists are capped each on its own.
func TestAnAlertOf32PatternsWorksAndOneOf33DoesNot(t *testing.T) {
	s := play(t)
	sink := s.newSink()
	s.must(s.tenant.Object(s.ctx, "Kustomization", "app", nil, ""))
	patterns := func(count int) string {
		list := make([]string, count)
		for i := range list {
			list[i] = fmt.Sprintf("pattern-%d$", i)
		}
		text, err := json.Marshal(list)
		s.must(err)
		return string(text)
	}
	s.must(s.tenant.Alert(s.ctx, "many", "generic", sink.URL("/"), anyKustomization))
	s.must(s.tenant.Object(s.ctx, "Alert", "many", nil, alertSpec("many", `,"inclusionList":`+patterns(16)+`,"exclusionList":`+patterns(16)[:1]+`"never"]`)))
	s.condition("Alert", "many", "Ready", metav1.ConditionTrue, "")
	s.must(s.tenant.Object(s.ctx, "Alert", "many", nil, alertSpec("many", `,"inclusionList":`+patterns(32))))
	s.condition("Alert", "many", "Ready", metav1.ConditionTrue, "")
	s.failure("pattern-31")
	s.waitMessages(sink, "pattern-31")
	s.must(s.tenant.Object(s.ctx, "Alert", "many", nil, alertSpec("many", `,"inclusionList":`+patterns(17)+`,"exclusionList":`+patterns(16))))
	c := s.condition("Alert", "many", "Ready", metav1.ConditionFalse, "InvalidConfig")
	if !strings.Contains(c.Message, "33 patterns, more than 32") {
		t.Errorf("the message does not name the limit: %s", c.Message)
	}
}

// E2: fails when an Alert without a Provider matches nothing, or when its deliveries are dead-lettered at once.
func TestE2AnEventForAProviderThatDoesNotExistYetIsKeptUntilItDoes(t *testing.T) {
	s := play(t)
	sink := s.newSink()
	s.must(s.tenant.Object(s.ctx, "Kustomization", "app", nil, ""))
	s.must(s.tenant.Object(s.ctx, "Alert", "early", nil, alertSpec("late", "")))
	c := s.condition("Alert", "early", "Ready", metav1.ConditionFalse, "ProviderNotFound")
	if !strings.Contains(c.Message, "late") {
		t.Errorf("the message does not name the Provider: %s", c.Message)
	}
	s.failure("before the Provider came")
	s.must(s.tenant.Object(s.ctx, "Provider", "late", nil, `{"type":"generic","secretRef":{"name":"late-address"}}`))
	s.condition("Provider", "late", "Ready", metav1.ConditionFalse, "")
	s.failure("before its Secret came")
	s.must(s.tenant.Secret(s.ctx, "late-address", map[string]string{"address": sink.URL("/")}))
	s.condition("Provider", "late", "Ready", metav1.ConditionTrue, "")
	s.condition("Alert", "early", "Ready", metav1.ConditionTrue, "")
	s.waitMessages(sink, "before the Provider came", "before its Secret came")
}

// A pattern whose match would cost seconds, and a tenant that sends what it matches, cost the others next to nothing: such a
// pattern is refused, and those that are just not refused are cut short. Fails when the size of a compiled pattern is not bounded,
// or when matching is not timed.
func TestAnExpensivePatternIsItsOwnersProblem(t *testing.T) {
	s := play(t)
	other := s.newTenant()
	mine, theirs := s.newSink(), s.newSink()
	s.must(s.tenant.Object(s.ctx, "Kustomization", "app", nil, ""))
	s.must(other.Object(s.ctx, "Kustomization", "app", nil, ""))
	s.must(s.tenant.Alert(s.ctx, "slow", "generic", mine.URL("/"), anyKustomization))
	s.must(other.Alert(s.ctx, "all", "generic", theirs.URL("/"), anyKustomization))

	// 540 bytes that cost Go's linear matcher 11 s on 156 kB.
	huge := strings.Repeat("((a{0,30}){0,30})", 30) + "$"
	s.must(s.tenant.Object(s.ctx, "Alert", "slow", nil, alertSpec("slow", `,"exclusionList":["`+huge+`"]`)))
	c := s.condition("Alert", "slow", "Ready", metav1.ConditionFalse, "InvalidConfig")
	if !strings.Contains(c.Message, "exclusionList[0]") || !strings.Contains(c.Message, "expensive") {
		t.Errorf("the message does not say which pattern is too expensive: %s", c.Message)
	}

	// 32 that are allowed one by one.
	allowed := make([]string, 32)
	for i := range allowed {
		allowed[i] = fmt.Sprintf(`"(x*){0,30}(x?){0,300}y%d$"`, i)
	}
	s.must(s.tenant.Object(s.ctx, "Alert", "slow", nil, alertSpec("slow", `,"exclusionList":[`+strings.Join(allowed, ",")+`]`)))
	s.condition("Alert", "slow", "Ready", metav1.ConditionTrue, "")
	event, err := s.tenant.Event(s.ctx, "Kustomization", "app", "error", "BuildFailed", "", "main@sha1:1")
	s.must(err)
	const floods = 40
	for i := range floods {
		event["message"] = fmt.Sprintf("%d %s", i, strings.Repeat("x", 150_000))
		resp, err := s.Post(s.ctx, event)
		s.must(err)
		s.mustTell("an expensive event", resp, http.StatusAccepted)
	}
	var longest time.Duration
	for i := range 10 {
		begin := time.Now()
		message := fmt.Sprintf("cheap %d.", i)
		s.post(other, "app", "error", "BuildFailed", message, "main@sha1:2", http.StatusAccepted)
		s.waitMessages(theirs, message)
		longest = max(longest, time.Since(begin))
	}
	t.Logf("beside %d events of 150 kB for 32 expensive patterns, another tenant's took at most %s", floods, longest.Round(time.Millisecond))
	// A namespace's patterns get 2 s in 10 s.
	if longest > 5*time.Second {
		t.Errorf("another tenant's event took %s", longest)
	}
	// An unfiltered notification is better than a lost one, and its owner is told why.
	s.condition("Alert", "slow", "Matching", metav1.ConditionFalse, "PatternsTooExpensive")
	_, err = mine.Wait(s.within(time.Minute), func(all []harness.Received) bool { return len(all) >= floods })
	s.must(err)
}

// Fails when a suspended Alert still matches, or when what happened meanwhile is sent after it was resumed.
func TestASuspendedAlertIsSilentUntilResumed(t *testing.T) { suspended(t, "Alert") }

// Fails when a suspended Provider is still sent to, or when what happened meanwhile is sent after it was resumed.
func TestASuspendedProviderIsSentNothingUntilResumed(t *testing.T) { suspended(t, "Provider") }

func suspended(t *testing.T, kind string) {
	s := play(t)
	sink, witness := s.newSink(), s.newSink()
	s.must(s.tenant.Object(s.ctx, "Kustomization", "app", nil, ""))
	s.must(s.tenant.Alert(s.ctx, "all", "generic", sink.URL("/"), anyKustomization))
	s.must(s.tenant.Alert(s.ctx, "witness", "generic", witness.URL("/"), anyKustomization))
	s.failure("before")
	s.waitMessages(sink, "before")
	s.suspend(kind, "all", true)
	s.observed(kind, "all")
	s.failure("meanwhile")
	s.waitMessages(witness, "meanwhile")
	s.suspend(kind, "all", false)
	s.condition(kind, "all", "Ready", metav1.ConditionTrue, "")
	s.failure("after")
	s.waitMessages(sink, "after")
	if n := messagesWith(s, sink, "meanwhile"); n != 0 {
		t.Errorf("what happened while the %s was suspended was sent", kind)
	}
}

// observed waits until the status speaks of the present generation.
func (s *stage) observed(kind, name string) {
	s.Helper()
	s.must(harness.Eventually(s.within(soon), func(ctx context.Context) error {
		obj, err := s.tenant.Get(ctx, kind, name)
		if err != nil {
			return err
		}
		conditions, err := world.Conditions(obj)
		if err != nil {
			return err
		}
		for _, c := range conditions {
			if c.Type == "Ready" && c.ObservedGeneration == obj.GetGeneration() {
				return nil
			}
		}
		return fmt.Errorf("generation %d is not observed: %v", obj.GetGeneration(), conditions)
	}))
}
