package limits

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// A pattern whose match would take seconds, and a tenant that sends matching text, cost other tenants almost nothing:
// such a pattern is refused, and patterns just below the limit are cut short. Fails when the size of a compiled pattern
// is unbounded, or when matching is not timed.
func TestAnExpensivePatternIsItsOwnersProblem(t *testing.T) {
	s := alone(t)
	other := s.NewTenant()
	mine, theirs := s.NewSink(), s.NewSink()
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(other.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.Alert(s.Ctx, "slow", "generic", mine.URL("/"), env.AnyKustomization))
	s.Must(other.Alert(s.Ctx, "all", "generic", theirs.URL("/"), env.AnyKustomization))
	exclude := func(patterns ...string) {
		s.Must(s.Tenant.Object(s.Ctx, "Alert", "slow", nil, `{"providerRef":{"name":"slow"},"eventSources":[`+env.AnyKustomization+`],
			"exclusionList":["`+strings.Join(patterns, `","`)+`"]}`))
	}

	// 540 bytes that cost Go's linear matcher 11 s on 156 kB.
	exclude(strings.Repeat("((a{0,30}){0,30})", 30) + "$")
	message := s.ready("Alert", "slow", metav1.ConditionFalse, "LimitExceeded")
	if !strings.Contains(message, "exclusionList[0]") || !strings.Contains(message, "expensive") {
		t.Errorf("the message does not say which pattern is too expensive: %s", message)
	}

	// 32 that are allowed one by one.
	allowed := make([]string, 32)
	for i := range allowed {
		allowed[i] = fmt.Sprintf("(x*){0,30}(x?){0,300}y%d$", i)
	}
	exclude(allowed...)
	s.ready("Alert", "slow", metav1.ConditionTrue, "")
	event, err := s.Tenant.Event(s.Ctx, "Kustomization", "app", "error", "BuildFailed", "", "main@sha1:1")
	s.Must(err)
	const expensive = 40
	for i := range expensive {
		event["message"] = fmt.Sprintf("%d %s", i, strings.Repeat("x", 150_000))
		resp, err := s.Post(s.Ctx, event)
		s.Must(err)
		if resp.Status != http.StatusAccepted {
			t.Fatalf("an expensive event: got %d %q", resp.Status, resp.Body)
		}
	}
	event, err = other.Event(s.Ctx, "Kustomization", "app", "error", "BuildFailed", "", "main@sha1:1")
	s.Must(err)
	var longest time.Duration
	for i := range 10 {
		begin := time.Now()
		event["message"] = fmt.Sprintf("cheap %d", i)
		_, err := s.Post(s.Ctx, event)
		s.Must(err)
		s.waitTold(theirs, fmt.Sprintf("cheap %d", i))
		longest = max(longest, time.Since(begin))
	}
	t.Logf("beside %d events of 150 kB for 32 expensive patterns, another tenant's took at most %s", expensive, longest.Round(time.Millisecond))
	// A namespace's patterns get 2 s in 10 s; unbounded, each of those events would take minutes.
	if longest > 4*time.Second {
		t.Errorf("another tenant's event took %s", longest)
	}
	// An unfiltered notification is better than a lost one, and a condition gives its owner the reason.
	s.Condition(s.Tenant, "Alert", "slow", "Matching", metav1.ConditionFalse, "PatternsTooExpensive")
	_, err = mine.Wait(s.Within(time.Minute), func(all []env.Received) bool { return len(all) >= expensive })
	s.Must(err)
}
