package limits

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"notifier/test/env"
)

// slowObjects are the objects of the tenant whose writes are slow, each of which takes slowAnswer.
const slowObjects, slowAnswer = 64, 5 * time.Second

// T6: an admission webhook selects the namespace of one tenant, and hangs: the API server takes seconds to answer each write there. Fails when a
// webhook for many objects of that tenant takes all workers of the appliers, and another tenant's webhook waits for one of them.
func TestT6SlowWritesOfOneNamespaceDelayNoOthers(t *testing.T) {
	s := alone(t)
	slow := s.NewTenant()
	for i := range slowObjects {
		s.Must(slow.Object(s.Ctx, "GitRepository", fmt.Sprint("app-", i), map[string]string{"team": "a"}, ""))
	}
	flooding, err := slow.Receiver(s.Ctx, "flooding", "token", `{"type":"github","secretRef":{"name":"flooding-token"},
		"resources":[{"kind":"GitRepository","name":"*","matchLabels":{"team":"a"}}]}`)
	s.Must(err)
	path := s.Receiver(s.Tenant, "app", "token", "")
	s.hang(slow)
	s.Push(flooding, "token", http.StatusOK)
	for begin := time.Now(); time.Since(begin) < 2*slowAnswer; {
		sent := time.Now()
		s.Push(path, "token", http.StatusOK)
		if waited := s.Requested(s.Tenant, "GitRepository", "app", sent).Sub(sent); waited > slowAnswer/2 {
			t.Errorf("the other tenant's request was made %s after its webhook", waited)
		}
	}
}

// hang has the API server ask a webhook that does not answer about each write of a tenant's GitRepositories, for slowAnswer.
func (s *fixture) hang(slow *env.Tenant) {
	s.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	s.Must(err)
	s.Cleanup(func() { _ = silent.Close() })
	address, none, ignore, lasts := "https://"+silent.Addr().String(), admissionv1.SideEffectClassNone, admissionv1.Ignore, int32(slowAnswer/time.Second)
	hooks := s.System.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err = hooks.Create(s.Ctx, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: slow.Namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "silent.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &address}, SideEffects: &none, FailurePolicy: &ignore,
			TimeoutSeconds: &lasts, AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": slow.Namespace}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule: admissionv1.Rule{
					APIGroups: []string{"source.toolkit.fluxcd.io"}, APIVersions: []string{"*"}, Resources: []string{"gitrepositories"},
				},
			}},
		}},
	}, metav1.CreateOptions{})
	s.Must(err)
	s.Cleanup(func() { _ = hooks.Delete(context.WithoutCancel(s.Ctx), slow.Namespace, metav1.DeleteOptions{}) })
	gvr := env.Kinds["GitRepository"]
	s.Must(env.Eventually(s.Ctx, func(ctx context.Context) error {
		began := time.Now()
		_, err := s.System.Client.CoreV1().RESTClient().Patch(types.MergePatchType).
			AbsPath("/apis", gvr.Group, gvr.Version, "namespaces", slow.Namespace, gvr.Resource, "app-0").
			Body(fmt.Appendf(nil, `{"metadata":{"annotations":{"at":"%d"}}}`, began.UnixNano())).DoRaw(ctx)
		if err == nil && time.Since(began) < slowAnswer {
			err = fmt.Errorf("the webhook is not asked yet")
		}
		return err
	}))
}
