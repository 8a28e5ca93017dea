package controlplane_test

import (
	"context"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"notifier/test/env"
)

// oldControlPlane starts a control plane without constrained impersonation, as Kubernetes before 1.36.
func oldControlPlane(t *testing.T) *env.Cluster {
	t.Helper()
	c, err := env.StartControlPlane(t.Context(), env.ClusterOptions{
		Args: []string{"--apiserver-flag=--feature-gates=ConstrainedImpersonation=false"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	return c
}

// The API server lets RBAC review rules that it does not enforce. A rule of constrained impersonation is "allowed" for
// its holder, and yet permits no request. So only an impersonated request shows whether such rules take effect; an
// impersonated review is such a request. Fails when an API server without the gate enforces such rules, or reports that
// they allow nothing.
func TestAnAPIServerWithoutConstrainedImpersonationSaysYesAndMeansNo(t *testing.T) {
	t.Parallel()
	c := oldControlPlane(t)
	ctx := within(t)
	ns := tenantNamespace(t, c)
	mayReviewSo := rbacv1.PolicyRule{
		APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"selfsubjectaccessreviews"},
		Verbs: []string{"impersonate-on:serviceaccount:create"},
	}
	rules := []rbacv1.PolicyRule{mayBeAnyAccount, mayPatchGitRepositoriesSo, mayReviewSo}
	requestor := requestorWith(t, c, rules...)
	for _, rule := range rules {
		if !selfReview(ctx, t, requestor, authorizationv1.ResourceAttributes{
			Group: rule.APIGroups[0], Resource: rule.Resources[0], Verb: rule.Verbs[0], Namespace: ns, Name: "default",
		}) {
			t.Errorf("%v: the server says that it is not allowed", rule)
		}
	}
	wantForbidden(t, "patch", patch(ctx, impersonating(t, requestor, account(ns, "default"), gitRepositories, ns)), "cannot impersonate ")
	wantForbidden(t, "review", reviewAs(ctx, t, requestor, ns), "cannot impersonate ")

	plain := requestorWith(t, c, mayImpersonate)
	if err := patch(ctx, impersonating(t, plain, account(ns, "default"), gitRepositories, ns)); err != nil {
		t.Errorf("patch by plain impersonation: %v", err)
	}
	if err := reviewAs(ctx, t, plain, ns); err != nil {
		t.Errorf("review by plain impersonation: %v", err)
	}
}

// selfReview asks whether the requestor is allowed to.
func selfReview(ctx context.Context, t *testing.T, requestor *rest.Config, what authorizationv1.ResourceAttributes) bool {
	t.Helper()
	client, err := kubernetes.NewForConfig(requestor)
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// reviewAs reviews as the account default whether it may patch.
func reviewAs(ctx context.Context, t *testing.T, requestor *rest.Config, ns string) error {
	t.Helper()
	as := rest.CopyConfig(requestor)
	as.Impersonate = account(ns, "default")
	client, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: gitRepositories.Group, Resource: gitRepositories.Resource, Verb: "patch", Namespace: ns, Name: "target",
		}},
	}, metav1.CreateOptions{})
	return err
}
