package controlplane_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"notifier/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

// within is the longest time that any single fact may take to become true.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func namespace(t *testing.T, c *env.Cluster) string {
	t.Helper()
	name, err := c.Namespace(within(t), "test-")
	if err != nil {
		t.Fatalf("namespace: %v", err)
	}
	return name
}

func clientFor(t *testing.T, cfg *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Fails with --authorization-mode=AlwaysAllow.
func TestServiceAccountMayDoWhatRBACGrantsAndNothingElse(t *testing.T) {
	t.Parallel()
	ctx, c := within(t), env.ControlPlane(t)
	ns := namespace(t, c)
	as, err := c.As(ctx, ns, "default")
	if err != nil {
		t.Fatalf("token: %v", err)
	}
	maps := clientFor(t, as).CoreV1().ConfigMaps(ns)
	if _, err := maps.List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("without a grant, list returned %v, want forbidden", err)
	}
	if err := c.Grant(ctx, ns, "default", []string{"list"}, "configmaps"); err != nil {
		t.Fatalf("grant: %v", err)
	}
	if _, err := maps.List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatalf("with a grant, list returned %v", err)
	}
	if err := maps.Delete(ctx, "any", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a verb that was not granted returned %v, want forbidden", err)
	}
	if _, err := clientFor(t, as).CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("another namespace returned %v, want forbidden", err)
	}
	if err := c.Revoke(ctx, ns, "default"); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	if _, err := maps.List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("after the grant was revoked, list returned %v, want forbidden", err)
	}
}

func TestNamespaceDeletionFinishes(t *testing.T) {
	t.Parallel()
	ctx, c := within(t), env.ControlPlane(t)
	ns := namespace(t, c)
	if _, err := c.Apply(ctx, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: content, namespace: %s}}", ns)); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteNamespace(ctx, ns); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Namespace(ctx, ns); err != nil {
		t.Errorf("making the namespace again: %v", err)
	}
}

func TestClusterRolesAreAggregated(t *testing.T) {
	t.Parallel()
	ctx, c := within(t), env.ControlPlane(t)
	roles := c.Client.RbacV1().ClusterRoles()
	part, err := roles.Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "part-", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"aggregated.example.com"}, Resources: []string{"things"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = roles.Delete(context.Background(), part.Name, metav1.DeleteOptions{}) })
	err = env.Eventually(ctx, func(ctx context.Context) error {
		view, err := roles.Get(ctx, "view", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, rule := range view.Rules {
			if len(rule.APIGroups) == 1 && rule.APIGroups[0] == "aggregated.example.com" {
				return nil
			}
		}
		return fmt.Errorf("ClusterRole view lacks the rule: %v", view.Rules)
	})
	if err != nil {
		t.Error(err)
	}
}

func TestGarbageOfADeletedOwnerIsCollected(t *testing.T) {
	t.Parallel()
	ctx, c := within(t), env.ControlPlane(t)
	maps := c.Client.CoreV1().ConfigMaps(namespace(t, c))
	owner, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:            "owned",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(ctx, "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	err = env.Eventually(ctx, func(ctx context.Context) error {
		_, err := maps.Get(ctx, "owned", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the owned object is still there, get returned %w", err)
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAdmissionPoliciesAreEnforced(t *testing.T) {
	t.Parallel()
	ctx, c := within(t), env.ControlPlane(t)
	ns := namespace(t, c)
	_, err := c.Apply(ctx, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "!object.metadata.name.startsWith('refused')", message: no such names}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}}
`, ns))
	if err != nil {
		t.Fatal(err)
	}
	maps := c.Client.CoreV1().ConfigMaps(ns)
	err = env.Eventually(ctx, func(ctx context.Context) error {
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "refused-"}}, metav1.CreateOptions{})
		if apierrors.IsInvalid(err) {
			return nil
		}
		return fmt.Errorf("create returned %w, want invalid", err)
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "allowed"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("what the policy allows returned %v", err)
	}
}
