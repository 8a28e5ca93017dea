package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// A namespace is deleted while a notification waits for its destination and a trigger for its permission, and is made
// again with the same names: its new owner gets neither. Fails when messages carry no UIDs, or when those are not
// compared before sending, or before patching.
func TestANamespaceMadeAgainGetsNothingOfTheOldOne(t *testing.T) {
	s := setUp(t)
	sink := s.NewSink()
	sink.Answer(env.Answer{Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Second})
	name := s.Tenant.Namespace
	s.Must(s.Tenant.ServiceAccount(s.Ctx, name, "writer"))
	furnish := func() (path string) {
		s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
		s.Must(s.Tenant.Alert(s.Ctx, "all", "generic", sink.URL("/"), env.AnyKustomization))
		return s.Receiver(s.Tenant, "app", "t", `,"serviceAccountName":"writer"`)
	}
	path := furnish()
	gone := s.baseline("notifier_deliveries_total", "outcome", "dead", "reason", "owner_gone")
	unasked := s.baseline("notifier_apply_triggers_total", "result", "owner_gone")
	s.failure("the old owner's secret plans")
	_, err := sink.Wait(s.Within(time.Minute), func(all []env.Received) bool { return len(all) > 0 })
	s.Must(err)
	s.Push(path, "t", http.StatusOK)
	s.Condition(s.Tenant, "Receiver", "app", "WriteDenied", metav1.ConditionTrue, "")

	s.Must(s.System.DeleteNamespace(s.Ctx, name))
	s.Tenant, err = s.System.Tenant(s.Ctx, name)
	s.Must(err)
	sink.Forget() // from now on it answers 200
	s.Must(s.Tenant.ServiceAccount(s.Ctx, name, "writer"))
	s.Must(s.Tenant.Grant(s.Ctx, name, "writer", []string{"patch"}, env.Patchable...))
	if again := furnish(); again != path {
		t.Errorf("the same names and token have the paths %s and %s", path, again)
	}

	// Both messages are read again, and are ended.
	begin := time.Now()
	s.Must(env.Eventually(s.Ctx, unasked.grown))
	t.Logf("the trigger was ended %s after the namespace was made again", time.Since(begin).Round(time.Millisecond))
	s.Must(env.Eventually(s.Ctx, gone.grown))
	t.Logf("the notification was ended %s after the namespace was made again", time.Since(begin).Round(time.Millisecond))
	at, err := s.Tenant.Requested(s.Ctx, "GitRepository", "app")
	s.Must(err)
	if !at.IsZero() {
		t.Errorf("the new owner's object was asked to reconcile at %s", at)
	}
	s.failure("the new owner's own")
	s.waitMessages(sink, "the new owner's own")
	if messagesWith(s, sink, "secret plans") != 0 {
		t.Error("the new owner was sent what happened to the old one")
	}
	sent := time.Now()
	s.Push(path, "t", http.StatusOK)
	s.Requested(s.Tenant, "GitRepository", "app", sent)
}

// count is a metric with an earlier value.
type count struct {
	s      *fixture
	name   string
	labels []string
	before float64
}

func (s *fixture) baseline(name string, labels ...string) count {
	s.Helper()
	before, err := s.Metric(s.Ctx, name, labels...)
	s.Must(err)
	return count{s: s, name: name, labels: labels, before: before}
}

// grown returns an error until the metric is greater than before.
func (c count) grown(ctx context.Context) error {
	now, err := c.s.Metric(ctx, c.name, c.labels...)
	if err == nil && now <= c.before {
		err = fmt.Errorf("%s %v is still %v", c.name, c.labels, now)
	}
	return err
}
