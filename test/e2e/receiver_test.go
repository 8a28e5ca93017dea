package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// soon bounds waits without a promised time: a machine that is busy with other tests may be slow.
const soon = 30 * time.Second

// answered waits until a push on the path is answered with the status.
func (s *fixture) answered(path, token string, status int) {
	s.Helper()
	s.Must(env.Eventually(s.Within(soon), func(ctx context.Context) error {
		resp, err := s.GitHub(ctx, path, token, "push", env.GitHubPush)
		if err == nil && resp.Status != status {
			err = fmt.Errorf("got %d %q, want %d", resp.Status, resp.Body, status)
		}
		return err
	}))
}

// Fails when a Receiver with no token, or with an empty one, is served: everybody could sign for it. Fails also when the
// Secret is not watched.
func TestAReceiverWithoutATokenIsNotServedUntilItComes(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", "app", nil, ""))
	for name, data := range map[string]map[string]string{
		"missing": nil, "lacks-token": {"password": "x"}, "empty-token": {"token": ""},
	} {
		if data != nil {
			s.Must(s.Tenant.Secret(s.Ctx, name+"-token", data))
		}
		s.Must(s.Tenant.Object(s.Ctx, "Receiver", name, nil, env.GitHubSpec(name, "app", "")))
		c := s.Condition(s.Tenant, "Receiver", name, "Ready", metav1.ConditionFalse, "TokenNotFound")
		if !strings.Contains(c.Message, name+"-token") {
			t.Errorf("%s: the message does not name the Secret: %s", name, c.Message)
		}
		obj := s.Read(s.Tenant, "Receiver", name)
		if status, _ := obj.Object["status"].(map[string]any); status["webhookPath"] != nil {
			t.Errorf("%s: it shows the path %v", name, status["webhookPath"])
		}
		s.mustTell(name, s.hook(http.MethodPost, env.HookPath("", name, s.Tenant.Namespace),
			env.GitHubHeader("", "push", env.GitHubPush), env.GitHubPush), http.StatusNotFound)
		s.Must(env.Eventually(s.Within(soon), func(context.Context) error { return s.hasEvent("Receiver", name, "Failed") }))

		s.Must(s.Tenant.Secret(s.Ctx, name+"-token", map[string]string{"token": "come"}))
		begin := time.Now()
		s.answered(env.HookPath("come", name, s.Tenant.Namespace), "come", http.StatusOK)
		t.Logf("%s: served %s after the Secret came", name, time.Since(begin).Round(time.Millisecond))
		path := s.Path(s.Tenant, name)
		if want := env.HookPath("come", name, s.Tenant.Namespace); path != want {
			t.Errorf("%s: the path is %q, want %q", name, path, want)
		}
	}
}

// Fails when the Secret is read at spec.interval only, or when the old path is kept beside the new one.
func TestARotatedTokenMovesThePathWithinSeconds(t *testing.T) {
	s := setUp(t)
	old := s.Receiver(s.Tenant, "app", "old", "")
	s.Push(old, "old", http.StatusOK)
	s.Must(s.Tenant.Secret(s.Ctx, "app-token", map[string]string{"token": "new"}))
	begin := time.Now()
	next := env.HookPath("new", "app", s.Tenant.Namespace)
	s.answered(next, "new", http.StatusOK)
	t.Logf("the new path is served after %s", time.Since(begin).Round(time.Millisecond))
	s.Push(old, "old", http.StatusNotFound)
	s.Push(next, "old", http.StatusBadRequest)
	s.Must(env.Eventually(s.Within(soon), func(ctx context.Context) error {
		path, err := s.Tenant.ReceiverPath(ctx, "app")
		if err == nil && path != next {
			err = fmt.Errorf("status.webhookPath is %q, want %q", path, next)
		}
		return err
	}))
	// The Secret is deleted: the path is no longer served.
	s.Must(s.System.Client.CoreV1().Secrets(s.Tenant.Namespace).Delete(s.Ctx, "app-token", metav1.DeleteOptions{}))
	s.answered(next, "new", http.StatusNotFound)
	s.Condition(s.Tenant, "Receiver", "app", "Ready", metav1.ConditionFalse, "TokenNotFound")
}

// Fails when a type from the definition of a later release is served as another type. All our own types are supported.
func TestATypeThatIsNotBuiltSaysSoAndWhichAre(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.Object(s.Ctx, "Provider", "odd", nil, `{"type":"carrier-pigeon","address":"https://example.com"}`))
	c := s.Condition(s.Tenant, "Provider", "odd", "Serving", metav1.ConditionFalse, "UnsupportedType")
	for _, built := range []string{"carrier-pigeon", "slack", "msteams", "generic", "generic-hmac"} {
		if !strings.Contains(c.Message, built) {
			t.Errorf("the message does not name %s: %s", built, c.Message)
		}
	}
}

// Fails when fewer than 512 are served, when the API server refuses more, or when the rest makes the others unserved or
// is not reported.
func TestOfAReceiverOf513ResourcesTheFirst512AreServed(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.Secret(s.Ctx, "app-token", map[string]string{"token": "t"}))
	spec := func(count int) string {
		resources := make([]string, count)
		for i := range resources {
			resources[i] = fmt.Sprintf(`{"kind":"GitRepository","name":"app-%d"}`, i)
		}
		return `{"type":"generic","secretRef":{"name":"app-token"},"resources":[` + strings.Join(resources, ",") + `]}`
	}
	for _, name := range []string{"app-511", "app-512"} {
		s.Must(s.Tenant.Object(s.Ctx, "GitRepository", name, nil, ""))
	}
	s.Must(s.Tenant.Object(s.Ctx, "Receiver", "many", nil, spec(513)))
	c := s.Condition(s.Tenant, "Receiver", "many", "Serving", metav1.ConditionFalse, "LimitExceeded")
	if !strings.Contains(c.Message, "only the first 512 are served") {
		t.Errorf("the message does not name the limit: %s", c.Message)
	}
	path := s.Path(s.Tenant, "many")
	sent := time.Now()
	got := s.repeated(func() env.Response { return s.hook(http.MethodPost, path, nil, "{}") })
	s.mustTell("513 resources", got, http.StatusOK)
	s.Requested(s.Tenant, "GitRepository", "app-511", sent)
	s.neverRequested(s.Tenant, "GitRepository", "app-512")
}

// Fails when suspending is only a condition, or when it needs a restart to be undone.
func TestASuspendedReceiverRefusesAndServesAgainWhenResumed(t *testing.T) {
	s := setUp(t)
	path := s.Receiver(s.Tenant, "app", "t", "")
	s.suspend("Receiver", "app", true)
	s.observed("Receiver", "app")
	s.answered(path, "t", http.StatusServiceUnavailable)
	// Only a sender that knows the token learns of it.
	s.Push(path, "wrong", http.StatusBadRequest)
	s.neverRequested(s.Tenant, "GitRepository", "app")
	s.suspend("Receiver", "app", false)
	s.answered(path, "t", http.StatusOK)
	_ = s.Path(s.Tenant, "app")
}

// suspend sets spec.suspend as `flux suspend` and `flux resume` do.
func (s *fixture) suspend(kind, name string, suspended bool) {
	s.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, suspended)
	_, err := s.Tenant.Dynamic.Resource(env.Kinds[kind]).Namespace(s.Tenant.Namespace).
		Patch(s.Ctx, name, "application/merge-patch+json", patch, metav1.PatchOptions{})
	s.Must(err)
}

// The finalizer that Flux's notification-controller left does not block the deletion of an object, or of its namespace;
// another's does. Fails when it is not removed, or when another one is removed too.
func TestAFinalizerLeftByFluxDoesNotBlockADeletion(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.Secret(s.Ctx, "app-token", map[string]string{"token": "t"}))
	specs := map[string]string{
		"Receiver": env.GitHubSpec("app", "app", ""), "Provider": `{"type":"generic","address":"https://example.com"}`,
		"Alert": `{"providerRef":{"name":"app"},"eventSources":[` + env.AnyKustomization + `]}`,
	}
	for kind, spec := range specs {
		for name, finalizers := range map[string]string{
			"left": `["finalizers.fluxcd.io"]`, "two": `["example.com/first","finalizers.fluxcd.io","example.com/last"]`,
		} {
			gvr := env.Kinds[kind]
			s.Must(s.Tenant.Apply(s.Ctx, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":"$NS","finalizers":%s},"spec":%s}`,
				gvr.Group+"/"+gvr.Version, kind, name, finalizers, spec)))
			s.Must(s.Tenant.Delete(s.Ctx, kind, name))
		}
	}
	for kind := range specs {
		s.Must(env.Eventually(s.Within(soon), func(ctx context.Context) error {
			_, err := s.Tenant.Get(ctx, kind, "left")
			if err == nil {
				return fmt.Errorf("%s is still there", kind)
			}
			return ignoreNotFound(err)
		}))
		s.Must(env.Eventually(s.Within(soon), func(ctx context.Context) error {
			obj, err := s.Tenant.Get(ctx, kind, "two")
			if err != nil {
				return err
			}
			if got := strings.Join(obj.GetFinalizers(), " "); got != "example.com/first example.com/last" {
				return fmt.Errorf("%s: the finalizers are %q", kind, got)
			}
			return nil
		}))
		_, err := s.Tenant.Dynamic.Resource(env.Kinds[kind]).Namespace(s.Tenant.Namespace).
			Patch(s.Ctx, "two", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		s.Must(err)
	}
}
