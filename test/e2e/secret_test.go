package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"notifier/test/env"
)

// E7: a tenant may make Providers and may not read Secrets. It names, in Providers and Receivers, the token of a service
// account and the values of a Helm release, and has its own events sent to its own address. Fails when a request that
// contains one of them arrives, or when the tenant gets no advice.
func TestE7AProviderDoesNotSendASecretThatItsMakerMayNotRead(t *testing.T) {
	s := setUp(t)
	sink := s.NewSink()
	const stolen = "the-token-of-another"
	for name, secret := range map[string]*corev1.Secret{
		"account": {
			ObjectMeta: metav1.ObjectMeta{Name: "account", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
			Type:       corev1.SecretTypeServiceAccountToken,
		},
		"release": {ObjectMeta: metav1.ObjectMeta{Name: "release"}, Type: "helm.sh/release.v1"},
		"login":   {ObjectMeta: metav1.ObjectMeta{Name: "login"}, Type: corev1.SecretTypeBasicAuth},
	} {
		secret.StringData = map[string]string{
			"token": stolen, "username": stolen, "password": stolen,
		}
		_, err := s.Tenant.Client.CoreV1().Secrets(s.Tenant.Namespace).Create(s.Ctx, secret, metav1.CreateOptions{})
		s.Must(err)
		spec := fmt.Sprintf(`{"type":"slack","address":%q,"channel":"c","secretRef":{"name":%q}}`, sink.URL("/stolen"), name)
		s.Must(s.Tenant.Object(s.Ctx, "Provider", name, nil, spec))
		s.Must(s.Tenant.Object(s.Ctx, "Alert", name, nil, fmt.Sprintf(
			`{"providerRef":{"name":%q},"eventSeverity":"info","eventSources":[{"kind":"Kustomization","name":"*"}]}`, name)))
		s.Must(s.Tenant.Object(s.Ctx, "Receiver", name, nil, fmt.Sprintf(
			`{"type":"generic","secretRef":{"name":%q},"resources":[{"kind":"GitRepository","name":"app"}]}`, name)))
	}
	s.Must(s.Tenant.SlackAlert(s.Ctx, "honest", sink.URL("/honest")))
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.SetReady(s.Ctx, "Kustomization", "app", true, "ReconciliationSucceeded", "Applied", "main@sha1:1"))
	e, err := s.Tenant.Event(s.Ctx, "Kustomization", "app", "info", "ReconciliationSucceeded", "Applied", "main@sha1:1")
	s.Must(err)
	resp, err := s.Post(s.Ctx, e)
	s.Must(err)
	if resp.Status != 202 {
		t.Fatalf("event: %d", resp.Status)
	}
	_, err = sink.Wait(s.Within(30*time.Second), func(got []env.Received) bool {
		return slices.ContainsFunc(got, func(r env.Received) bool { return r.Path == "/honest" })
	})
	s.Must(err)
	for _, name := range []string{"account", "release", "login"} {
		for _, kind := range []string{"Provider", "Receiver"} {
			obj, err := s.Tenant.WaitCondition(s.Ctx, kind, name, env.Outcome(kind), metav1.ConditionFalse, "SecretDenied")
			if err != nil {
				s.Error(err)
				continue
			}
			s.mustNotShow(obj, stolen)
		}
	}
	for _, r := range sink.Received() {
		if strings.Contains(fmt.Sprint(r.Header, string(r.Body)), stolen) {
			t.Errorf("%s got what the tenant may not read", r.Path)
		}
	}
}

// mustNotShow fails the test if an object has the text, or does not give advice.
func (s *fixture) mustNotShow(obj *unstructured.Unstructured, text string) {
	s.Helper()
	all, err := json.Marshal(obj)
	s.Must(err)
	if strings.Contains(string(all), text) {
		s.Errorf("%s %s shows the Secret's value", obj.GetKind(), obj.GetName())
	}
	if !strings.Contains(string(all), "type Opaque") {
		s.Errorf("%s %s does not say what to do: %s", obj.GetKind(), obj.GetName(), all)
	}
}
