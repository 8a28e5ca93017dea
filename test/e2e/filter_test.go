package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"notifier/test/env"
)

// filteredSpec reads the webhook, the objects and a field that no webhook has: "absent".
const filteredSpec = `{"type":"github","events":["push"],"secretRef":{"name":"app-token"},"resourceFilter":"req.ref == 'refs/heads/main'",
	"resources":[
		{"kind":"GitRepository","name":"app","filter":"has(req.repository)"},
		{"kind":"Kustomization","name":"*","matchExpressions":[{"key":"env","operator":"In","values":["prod","dev"]}],
		 "filter":"res.metadata.labels.env == 'prod'"},
		{"kind":"OCIRepository","name":"app","filter":"req.absent == 'x'"}]}`

// Fails when a filter is not evaluated, when a failed filter triggers or stops the other filters, or when the owner gets
// no report.
func TestFiltersChooseWhatAWebhookTriggersAndFailAlone(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.Secret(s.Ctx, "app-token", map[string]string{"token": "t"}))
	for _, kind := range []string{"GitRepository", "OCIRepository"} {
		s.Must(s.Tenant.Object(s.Ctx, kind, "app", nil, ""))
	}
	for _, name := range []string{"prod", "dev", "other"} {
		s.Must(s.Tenant.Object(s.Ctx, "Kustomization", name, map[string]string{"env": name}, ""))
	}
	s.Must(s.Tenant.Object(s.Ctx, "Receiver", "app", nil, filteredSpec))
	path := s.Path(s.Tenant, "app")
	push := func(ref, want string) {
		s.Helper()
		body := `{"ref":"` + ref + `","repository":{}}`
		if got := s.hook(http.MethodPost, path, env.GitHubHeader("t", "push", body), body); got.Status != http.StatusOK || got.Body != want {
			s.Errorf("a push to %s: got %d %s, want %s", ref, got.Status, got.Body, want)
		}
	}
	push("refs/heads/dev", `{"accepted":true}`)
	s.neverRequested(s.Tenant, "GitRepository", "app")

	sent := time.Now()
	push("refs/heads/main", `{"accepted":true,"filtersFailed":1}`)
	for kind, name := range map[string]string{"GitRepository": "app", "Kustomization": "prod"} {
		s.Requested(s.Tenant, kind, name, sent)
	}
	s.neverRequested(s.Tenant, "OCIRepository", "app")
	for _, name := range []string{"dev", "other"} {
		s.neverRequested(s.Tenant, "Kustomization", name)
	}
	s.Must(env.Eventually(s.Within(30*time.Second), func(ctx context.Context) error {
		obj, err := s.Tenant.Get(ctx, "Receiver", "app")
		if err != nil {
			return err
		}
		shown, _, err := unstructured.NestedString(obj.Object, "status", "deliveries", "lastError", "reason")
		if want := "spec.resources[2].filter reads a key that is not there: test it with has()"; err == nil && shown != want {
			err = fmt.Errorf("lastError says %q, want %q", shown, want)
		}
		return err
	}))
}

// Fails when a filter that does not compile is ignored, which would trigger more than its owner meant, or its field is
// not named.
func TestAFilterThatDoesNotCompileServesNothing(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.Secret(s.Ctx, "app-token", map[string]string{"token": "t"}))
	s.Must(s.Tenant.Object(s.Ctx, "Receiver", "app", nil, `{"type":"generic","secretRef":{"name":"app-token"},
		"resources":[{"kind":"GitRepository","name":"app","filter":"req.ref =="}]}`))
	c := s.Condition(s.Tenant, "Receiver", "app", "Ready", metav1.ConditionFalse, "InvalidCELExpression")
	s.mustTell("its path", s.hook(http.MethodPost, env.HookPath("t", "app", s.Tenant.Namespace), nil, "{}"), http.StatusServiceUnavailable)
	t.Log(c.Message)
}
