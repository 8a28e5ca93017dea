package install

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"notifier/test/env"
)

// withIdentity is a cluster with config/workload-identity. It is separate from the shared one, whose tests prove that
// the process makes no tokens.
var withIdentity = env.Shared(func(ctx context.Context) (*env.System, error) {
	w, err := env.NewSystem(ctx, true)
	if err != nil {
		return nil, err
	}
	all, err := manifests("workload-identity")
	if err != nil {
		return nil, err
	}
	_, err = w.Apply(ctx, all)
	return w, err
})

const (
	azure  = "api://AzureADTokenExchange"
	google = "//iam.googleapis.com/projects/12/locations/global/workloadIdentityPools/pool/providers/cluster"
	gke    = "my-project.svc.id.goog"
)

// asked is a request for a token, "" for the tenant's namespace.
type asked struct {
	namespace string
	audiences []string
	seconds   int64
}

func (a asked) of(ctx context.Context, client kubernetes.Interface, tenant, account string) (*authenticationv1.TokenRequest, error) {
	namespace := a.namespace
	if namespace == "" {
		namespace = tenant
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: a.audiences}}
	if a.seconds > 0 {
		request.Spec.ExpirationSeconds = &a.seconds
	}
	return client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
}

// messages are the policy's messages, each under a short name.
var messages = map[string]string{
	"namespace": "no token may be made of an account in the installation's own namespace",
	"audience":  "only tokens for workload identity at Azure and Google Cloud may be made",
	"life":      "tokens last an hour at most",
}

// refusedTokens are requests that the policy refuses, with the name of its message.
var refusedTokens = []struct {
	why string
	asked
}{
	{"audience", asked{}},
	{"audience", asked{audiences: []string{}}},
	{"audience", asked{audiences: []string{""}}},
	{"audience", asked{audiences: []string{"https://kubernetes.default.svc"}}},
	{"audience", asked{audiences: []string{azure, "https://kubernetes.default.svc"}}},
	{"audience", asked{audiences: []string{azure, google}}},
	{"audience", asked{audiences: []string{azure + "/x"}}},
	{"audience", asked{audiences: []string{" " + azure}}},
	{"audience", asked{audiences: []string{"x" + google}}},
	{"audience", asked{audiences: []string{google + "/x"}}},
	{"audience", asked{audiences: []string{strings.Replace(google, "12", "x", 1)}}},
	{"audience", asked{audiences: []string{gke + ".evil.test"}}},
	{"audience", asked{audiences: []string{"https://" + gke}}},
	{"audience", asked{audiences: []string{"evil\n" + gke}}},
	{"audience", asked{audiences: []string{".svc.id.goog"}}},
	{"namespace", asked{namespace: env.SystemNamespace, audiences: []string{azure}}},
	{"namespace", asked{namespace: env.SystemNamespace, audiences: []string{gke}, seconds: 600}},
	{"life", asked{audiences: []string{azure}, seconds: 3601}},
	{"life", asked{audiences: []string{azure}, seconds: 1 << 31}},
}

// Fails when the process's identity gets a token of an account for another audience than those of the clouds, for
// several, for longer than an hour, or of an account beside its own. Fails also when it gets none for a cloud, or when
// the policy restricts another identity.
func TestTokensAreMadeForTheCloudsOfTenantsOnly(t *testing.T) {
	t.Parallel()
	w, err := withIdentity()
	if err != nil {
		t.Fatal(err)
	}
	s := &fixture{env.NewFixture(t, w, nil)}
	tenant, self := s.NewTenant(), s.self(rest.ImpersonationConfig{})
	s.Must(s.System.ServiceAccount(s.Ctx, tenant.Namespace, "cloud"))
	s.Must(s.System.ServiceAccount(s.Ctx, env.SystemNamespace, "cloud"))
	s.identityHeld(self, tenant)

	for _, a := range []asked{
		{audiences: []string{azure}},
		{audiences: []string{google}},
		{audiences: []string{gke}},
		{audiences: []string{"domain.test:p.svc.id.goog"}},
		{audiences: []string{azure}, seconds: 600},
		{audiences: []string{azure}, seconds: 3600},
	} {
		got, err := a.of(s.Ctx, self, tenant.Namespace, "cloud")
		if err != nil {
			t.Errorf("%+v: %v, want a token", a, err)
		} else if got.Status.Token == "" || !slices.Equal(got.Spec.Audiences, a.audiences) {
			t.Errorf("%+v: a token for %v", a, got.Spec.Audiences)
		}
	}
	for _, c := range refusedTokens {
		if err := refusedFor(messages[c.why], c.asked, s, self, tenant); err != nil {
			t.Errorf("%+v: %v", c.asked, err)
		}
	}
	_, err = asked{namespace: env.SystemNamespace, audiences: []string{azure}}.of(s.Ctx, self, "", env.ServiceAccount)
	s.forbidden("a token of its own account", err)

	s.Must(s.System.Grant(s.Ctx, tenant.Namespace, "cloud", []string{"create"}, "serviceaccounts/token"))
	cfg, err := s.System.As(s.Ctx, tenant.Namespace, "cloud")
	s.Must(err)
	other, err := kubernetes.NewForConfig(cfg)
	s.Must(err)
	if _, err := (asked{seconds: 7200}).of(s.Ctx, other, tenant.Namespace, "cloud"); err != nil {
		t.Errorf("another identity is held to the same: %v", err)
	}
}

// identityHeld waits until the API server enforces the policy, which it compiles some time after its creation.
func (s *fixture) identityHeld(self identity, tenant *env.Tenant) {
	s.Helper()
	s.Must(env.Eventually(s.Ctx, func(context.Context) error {
		return refusedFor(messages["audience"], asked{}, s, self, tenant)
	}))
}

// refusedFor requests a token and returns an error unless the policy refuses it with the message.
func refusedFor(message string, a asked, s *fixture, self identity, tenant *env.Tenant) error {
	_, err := a.of(s.Ctx, self, tenant.Namespace, "cloud")
	switch {
	case err == nil:
		return errors.New("a token was made")
	case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), message):
		return err
	}
	return nil
}
