package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// matching waits until the condition Matching has the status and its message contains the text.
func (s *fixture) matching(kind, name string, status metav1.ConditionStatus, text string) {
	s.Helper()
	s.Must(env.Eventually(s.Within(soon), func(context.Context) error {
		if c := s.Condition(s.Tenant, kind, name, "Matching", status, ""); !strings.Contains(c.Message, text) {
			return fmt.Errorf("%s %s says %q, want %q", kind, name, c.Message, text)
		}
		return nil
	}))
}

// Fails when the Alert or the Receiver that names a misspelt kind or a missing object does not report it, or reports it
// as a missing permission. Fails also when Ready becomes False for it, and when the object's creation or
// deletion is not noticed.
func TestMisspeltKindsAndMissingObjectsAreReported(t *testing.T) {
	s := setUp(t)
	s.AlertedSink()
	s.matching("Alert", "all", metav1.ConditionTrue, "1 object matches")
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "misspelt", nil,
		`{"providerRef":{"name":"all"},"eventSources":[{"kind":"Kustomisation","name":"*"}]}`))
	s.matching("Alert", "misspelt", metav1.ConditionFalse, "no kind Kustomisation is known, is Kustomization meant?")
	s.Condition(s.Tenant, "Alert", "misspelt", "Ready", metav1.ConditionTrue, "")

	spec := func(kind string) string {
		return `{"type":"generic","secretRef":{"name":"hook-token"},"resources":[{"kind":"` + kind + `","name":"repo"}]}`
	}
	_, err := s.Tenant.Receiver(s.Ctx, "hook", "t", spec("GitRepositry"))
	s.Must(err)
	s.matching("Receiver", "hook", metav1.ConditionFalse, "is GitRepository meant?")
	_, err = s.Tenant.Receiver(s.Ctx, "hook", "t", spec("GitRepository"))
	s.Must(err)
	s.matching("Receiver", "hook", metav1.ConditionFalse, `GitRepository "repo" does not exist`)
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", "repo", nil, ""))
	s.matching("Receiver", "hook", metav1.ConditionTrue, "1 object matches")
	s.Must(s.Tenant.Delete(s.Ctx, "GitRepository", "repo"))
	s.matching("Receiver", "hook", metav1.ConditionFalse, `GitRepository "repo" does not exist`)
}
