package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/harness"
	"notifier/test/world"
)

// A namespace is deleted while a notification waits for its destination and a trigger for its permission, and made again with the
// same names: its new owner gets neither. Fails when messages carry no UIDs, or when those are not compared before sending, or
// before patching.
func TestANamespaceMadeAgainGetsNothingOfTheOldOne(t *testing.T) {
	s := play(t)
	sink := s.newSink()
	sink.Answer(harness.Answer{Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Second})
	name := s.tenant.Namespace
	s.must(s.tenant.ServiceAccount(s.ctx, name, "writer"))
	furnish := func() (path string) {
		s.must(s.tenant.Object(s.ctx, "Kustomization", "app", nil, ""))
		s.must(s.tenant.Alert(s.ctx, "all", "generic", sink.URL("/"), anyKustomization))
		return s.receiver(s.tenant, "app", "t", `,"serviceAccountName":"writer"`)
	}
	path := furnish()
	gone := s.baseline("notifier_deliveries_total", "outcome", "dead", "reason", "owner_gone")
	unasked := s.baseline("notifier_apply_triggers_total", "result", "owner_gone")
	s.failure("the old owner's secret plans")
	_, err := sink.Wait(s.within(time.Minute), func(all []harness.Received) bool { return len(all) > 0 })
	s.must(err)
	s.push(path, "t", http.StatusOK)
	s.condition("Receiver", "app", "WriteDenied", metav1.ConditionTrue, "")

	s.must(s.World().DeleteNamespace(s.ctx, name))
	s.tenant, err = s.World().Tenant(s.ctx, name)
	s.must(err)
	sink.Forget() // from now on it answers 200
	s.must(s.tenant.ServiceAccount(s.ctx, name, "writer"))
	s.must(s.tenant.Grant(s.ctx, name, "writer", []string{"patch"}, world.Patchable...))
	if again := furnish(); again != path {
		t.Errorf("the same names and token have the paths %s and %s", path, again)
	}

	// Both messages come up again, and are ended.
	begin := time.Now()
	s.must(harness.Eventually(s.ctx, unasked.grown))
	t.Logf("the trigger was ended %s after the namespace was made again", time.Since(begin).Round(time.Millisecond))
	s.must(harness.Eventually(s.ctx, gone.grown))
	t.Logf("the notification was ended %s after the namespace was made again", time.Since(begin).Round(time.Millisecond))
	at, err := s.tenant.Requested(s.ctx, "GitRepository", "app")
	s.must(err)
	if !at.IsZero() {
		t.Errorf("the new owner's object was asked to reconcile at %s", at)
	}
	s.failure("the new owner's own")
	s.waitMessages(sink, "the new owner's own")
	if messagesWith(s, sink, "secret plans") != 0 {
		t.Error("the new owner was sent what happened to the old one")
	}
	sent := time.Now()
	s.push(path, "t", http.StatusOK)
	_, err = s.tenant.WaitRequested(s.ctx, "GitRepository", "app", sent)
	s.must(err)
}

// count is a metric as it was.
type count struct {
	s      *stage
	name   string
	labels []string
	before float64
}

func (s *stage) baseline(name string, labels ...string) count {
	s.Helper()
	before, err := s.Metric(s.ctx, name, labels...)
	s.must(err)
	return count{s: s, name: name, labels: labels, before: before}
}

// grown returns an error until the metric is greater than it was.
func (c count) grown(ctx context.Context) error {
	now, err := c.s.Metric(ctx, c.name, c.labels...)
	if err == nil && now <= c.before {
		err = fmt.Errorf("%s %v is still %v", c.name, c.labels, now)
	}
	return err
}
