package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// failure POSTs a failure of the tenant's Kustomization "app" with the message, at a revision of its own.
func (s *fixture) failure(message string) {
	s.Helper()
	s.post(s.Tenant, "app", "error", "BuildFailed", message, "main@sha1:"+message, http.StatusAccepted)
}

// alertSpec returns the spec of an Alert on every Kustomization. fields is added to it, each field with a leading comma.
func alertSpec(provider, fields string) string {
	return `{"providerRef":{"name":"` + provider + `"},"eventSources":[` + env.AnyKustomization + `]` + fields + `}`
}

// messagesWith counts the messages at the sink that contain a text.
func messagesWith(s *fixture, sink *env.Sink, text string) int {
	s.Helper()
	count := 0
	for _, m := range messages(s, sink) {
		if strings.Contains(m, text) {
			count++
		}
	}
	return count
}

// Fails when a pattern that does not compile silently lets everything or nothing through, or when it breaks other
// Alerts.
func TestABadPatternIsShownAndHarmsNoOtherAlert(t *testing.T) {
	s := setUp(t)
	bad, good := s.NewSink(), s.NewSink()
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.Alert(s.Ctx, "bad", "generic", bad.URL("/"), env.AnyKustomization))
	s.Must(s.Tenant.Alert(s.Ctx, "good", "generic", good.URL("/"), env.AnyKustomization))
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "bad", nil, alertSpec("bad", `,"exclusionList":["fine","(unclosed"]`)))
	c := s.Condition(s.Tenant, "Alert", "bad", "Serving", metav1.ConditionFalse, "InvalidConfig")
	if !strings.Contains(c.Message, "exclusionList[1]") {
		t.Errorf("the message does not say which pattern is bad: %s", c.Message)
	}
	s.Must(env.Eventually(s.Within(soon), func(context.Context) error { return s.hasEvent("Alert", "bad", "InvalidConfig") }))
	s.failure("one")
	s.waitMessages(good, "one")
	// Once corrected, it serves again.
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "bad", nil, alertSpec("bad", `,"exclusionList":["fine","closed"]`)))
	s.Condition(s.Tenant, "Alert", "bad", "Serving", metav1.ConditionTrue, "")
	s.failure("two is closed")
	s.failure("three")
	s.waitMessages(bad, "three")
	s.waitMessages(good, "two", "three")
	if messagesWith(s, bad, "two") != 0 {
		t.Error("an excluded message was sent")
	}
}

// Fails when fewer than 256 patterns of 8 KiB are served, when further ones are not reported, or when a further
// exclusion is ignored: the events that it excludes would be sent.
func TestOfAnAlertsPatternsTheFirst256AreServedAndNoExclusionIsIgnored(t *testing.T) {
	s := setUp(t)
	sink := s.NewSink()
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	patterns := func(count int) string {
		list := make([]string, count)
		for i := range list {
			list[i] = fmt.Sprintf("pattern-%d$", i)
		}
		text, err := json.Marshal(list)
		s.Must(err)
		return string(text)
	}
	s.Must(s.Tenant.Alert(s.Ctx, "many", "generic", sink.URL("/"), env.AnyKustomization))
	long := `["` + strings.Repeat("never|", (8<<10-7)/6) + `pattern"]`
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "many", nil, alertSpec("many", `,"inclusionList":`+long)))
	s.Condition(s.Tenant, "Alert", "many", "Serving", metav1.ConditionTrue, "")
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "many", nil, alertSpec("many", `,"inclusionList":`+patterns(257))))
	c := s.Condition(s.Tenant, "Alert", "many", "Serving", metav1.ConditionFalse, "LimitExceeded")
	if !strings.Contains(c.Message, "too many patterns, and only the first 256 are served") {
		t.Errorf("the message does not name the limit: %s", c.Message)
	}
	s.failure("pattern-256")
	s.failure("pattern-255")
	s.waitMessages(sink, "pattern-255")
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "many", nil, alertSpec("many", `,"exclusionList":`+patterns(257))))
	c = s.Condition(s.Tenant, "Alert", "many", "Serving", metav1.ConditionFalse, "LimitExceeded")
	if !strings.Contains(c.Message, "matches nothing") {
		t.Errorf("the message does not say what follows: %s", c.Message)
	}
	witness := s.NewSink()
	s.Must(s.Tenant.Alert(s.Ctx, "witness", "generic", witness.URL("/"), env.AnyKustomization))
	s.failure("pattern-256 again")
	s.waitMessages(witness, "pattern-256 again")
	if n := messagesWith(s, sink, "pattern-256"); n != 0 {
		t.Errorf("%d messages that are beyond the inclusions, or that an exclusion was to keep back, were sent", n)
	}
}

// E2: fails when an Alert without a Provider matches nothing, or when its deliveries are dead-lettered at once.
func TestE2AnEventForAProviderThatDoesNotExistYetIsKeptUntilItDoes(t *testing.T) {
	s := setUp(t)
	sink := s.NewSink()
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "early", nil, alertSpec("late", "")))
	c := s.Condition(s.Tenant, "Alert", "early", "Serving", metav1.ConditionFalse, "ProviderNotFound")
	if !strings.Contains(c.Message, "late") {
		t.Errorf("the message does not name the Provider: %s", c.Message)
	}
	s.failure("before the Provider came")
	// It was to be sent, and an Event gives its owner the reason why it was not.
	s.Must(env.Eventually(s.Within(soon), func(context.Context) error {
		return s.hasEvent("Alert", "early", "NotificationDispatchFailed")
	}))
	s.Must(s.Tenant.Object(s.Ctx, "Provider", "late", nil, `{"type":"generic","secretRef":{"name":"late-address"}}`))
	s.Condition(s.Tenant, "Provider", "late", "Serving", metav1.ConditionFalse, "")
	s.failure("before its Secret came")
	s.Must(s.Tenant.Secret(s.Ctx, "late-address", map[string]string{"address": sink.URL("/")}))
	s.Condition(s.Tenant, "Provider", "late", "Serving", metav1.ConditionTrue, "")
	s.Condition(s.Tenant, "Alert", "early", "Serving", metav1.ConditionTrue, "")
	s.waitMessages(sink, "before the Provider came", "before its Secret came")
}

// Fails when a suspended Alert still matches, or when events from that time are sent after it was resumed.
func TestASuspendedAlertIsSilentUntilResumed(t *testing.T) { suspended(t, "Alert") }

// Fails when notifications are sent to a suspended Provider, or when events from that time are sent after it was
// resumed.
func TestASuspendedProviderIsSentNothingUntilResumed(t *testing.T) { suspended(t, "Provider") }

func suspended(t *testing.T, kind string) {
	s := setUp(t)
	sink, witness := s.NewSink(), s.NewSink()
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.Alert(s.Ctx, "all", "generic", sink.URL("/"), env.AnyKustomization))
	s.Must(s.Tenant.Alert(s.Ctx, "witness", "generic", witness.URL("/"), env.AnyKustomization))
	s.failure("before")
	s.waitMessages(sink, "before")
	s.suspend(kind, "all", true)
	s.observed(kind, "all")
	s.failure("meanwhile")
	s.waitMessages(witness, "meanwhile")
	s.suspend(kind, "all", false)
	s.Condition(s.Tenant, kind, "all", "Serving", metav1.ConditionTrue, "")
	s.failure("after")
	s.waitMessages(sink, "after")
	if n := messagesWith(s, sink, "meanwhile"); n != 0 {
		t.Errorf("what happened while the %s was suspended was sent", kind)
	}
}

// observed waits until the status is of the present generation.
func (s *fixture) observed(kind, name string) {
	s.Helper()
	s.Must(env.Eventually(s.Within(soon), func(ctx context.Context) error {
		obj, err := s.Tenant.Get(ctx, kind, name)
		if err != nil {
			return err
		}
		conditions, err := env.Conditions(obj)
		if err != nil {
			return err
		}
		for _, c := range conditions {
			if c.Type == env.Outcome(kind) && c.ObservedGeneration == obj.GetGeneration() {
				return nil
			}
		}
		return fmt.Errorf("generation %d is not observed: %v", obj.GetGeneration(), conditions)
	}))
}

// E2, E5: a Provider refuses deliveries since its address is wrong. The Alert and the Provider report them as lost, and
// they are delivered, in order, when the Secret is corrected. Fails when a new version of a Secret is not a new state of
// the Provider, when nothing is replayed, or when nothing is reported.
func TestE2MendingASecretBringsBackWhatTheProviderRefused(t *testing.T) {
	s := setUp(t)
	sink := s.NewSink()
	sink.AnswerWith(func(r env.Received) env.Answer {
		if r.Path == "/wrong" {
			return env.Answer{Status: http.StatusForbidden}
		}
		return env.Answer{}
	})
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.Alert(s.Ctx, "all", "generic", sink.URL("/wrong"), env.AnyKustomization))
	for _, message := range []string{"first lost", "second lost"} {
		s.failure(message)
	}
	for _, kind := range []string{"Alert", "Provider"} {
		c := s.Condition(s.Tenant, kind, "all", "DeliveriesLost", metav1.ConditionTrue, "DeliveryGivenUp")
		if !strings.Contains(c.Message, "given up") {
			t.Errorf("%s says %q", kind, c.Message)
		}
	}
	s.Must(env.Eventually(s.Within(soon), func(context.Context) error { return s.hasEvent("Provider", "all", "DeliveryGivenUp") }))
	s.waitMessages(sink, "first lost", "second lost") // refused both
	sink.Forget()
	s.Must(s.Tenant.Secret(s.Ctx, "all-address", map[string]string{"address": sink.URL("/right")}))
	s.waitMessages(sink, "first lost", "second lost")
	var got []string
	for _, r := range sink.Received() {
		got = append(got, r.Path)
	}
	all := messages(s, sink)
	if len(all) != 2 || !strings.Contains(all[0], "first") || got[0] != "/right" {
		t.Errorf("after it was mended: %v at %v", all, got)
	}
}

// E7: fails when Slack's answer is reduced to "HTTP 404", or when any other part of a destination's answer reaches the
// Provider.
func TestSlacksOwnWordReachesTheProvider(t *testing.T) {
	s := setUp(t)
	sink := s.NewSink()
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.SlackAlert(s.Ctx, "chat", sink.URL("/")))
	for body, want := range map[string]string{"no_service": "HTTP 404: no_service", "s3cret of the network": "HTTP 404"} {
		sink.AnswerWith(func(env.Received) env.Answer { return env.Answer{Status: http.StatusNotFound, Body: body} })
		s.failure("before " + want)
		s.Must(env.Eventually(s.Within(soon), func(context.Context) error { // a status is written at most every 10 s
			c := s.Condition(s.Tenant, "Provider", "chat", "Delivering", metav1.ConditionFalse, "DeliveryFailed")
			if strings.Contains(c.Message, "s3cret") {
				t.Fatalf("the answer shows: %s", c.Message)
			}
			if first, _, _ := strings.Cut(c.Message, ";"); !strings.HasSuffix(first, want) {
				return fmt.Errorf("got %q, want it to say %q", c.Message, want)
			}
			return nil
		}))
	}
}

// E5: fails when an event for a type that is not supported is kept, or when its owner gets no report.
func TestE5ForAnUnsupportedTypeNothingIsKeptAndTheAlertSaysSo(t *testing.T) {
	s := setUp(t)
	witness := s.NewSink()
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.Object(s.Ctx, "Provider", "odd", nil, `{"type":"carrier-pigeon","address":"https://pigeon.example"}`))
	s.Condition(s.Tenant, "Provider", "odd", "Serving", metav1.ConditionFalse, "UnsupportedType")
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "odd", nil, alertSpec("odd", "")))
	if c := s.Condition(s.Tenant, "Alert", "odd", "Serving", metav1.ConditionFalse, "ProviderNotReady"); !strings.Contains(c.Message, "not kept") {
		t.Errorf("the Alert says %q", c.Message)
	}
	s.Must(s.Tenant.Alert(s.Ctx, "witness", "generic", witness.URL("/"), env.AnyKustomization))
	s.failure("for nobody")
	s.waitMessages(witness, "for nobody")
	for _, kind := range []string{"Alert", "Provider"} {
		if c := s.Condition(s.Tenant, kind, "odd", "DeliveriesLost", metav1.ConditionTrue, ""); !strings.Contains(c.Message, "1 given up") {
			t.Errorf("%s says %q", kind, c.Message)
		}
	}
}
