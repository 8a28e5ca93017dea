package controlplane_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"notifier/test/crds"
	"notifier/test/env"
)

var (
	gitRepositories = schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "gitrepositories"}
	buckets         = schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "buckets"}
)

var (
	mayBeAnyAccount = rbacv1.PolicyRule{
		APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"serviceaccounts"},
		Verbs: []string{"impersonate:serviceaccount"},
	}
	mayBeDefault = rbacv1.PolicyRule{
		APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{"default"},
		Verbs: []string{"impersonate:serviceaccount"},
	}
	mayBeAccountOfCoreGroup = rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"serviceaccounts"},
		Verbs: []string{"impersonate:serviceaccount"},
	}
	mayPatchGitRepositoriesSo = rbacv1.PolicyRule{
		APIGroups: []string{gitRepositories.Group}, Resources: []string{gitRepositories.Resource},
		Verbs: []string{"impersonate-on:serviceaccount:patch"},
	}
	mayImpersonate = rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"serviceaccounts"},
		Verbs: []string{"impersonate"},
	}
)

// tenantNamespace makes a namespace with a GitRepository and a Bucket named "target" and two service accounts, default
// and other, that may do everything with them.
func tenantNamespace(t *testing.T, c *env.Cluster) string {
	t.Helper()
	ctx, ns := within(t), namespace(t, c)
	if err := crds.Install(ctx, c.Config); err != nil {
		t.Fatal(err)
	}
	for _, account := range []string{"default", "other"} {
		if err := c.ServiceAccount(ctx, ns, account); err != nil {
			t.Fatal(err)
		}
		err := c.Grant(ctx, ns, account, []string{"*"}, gitRepositories.GroupResource().String(),
			"gitrepositories/status.source.toolkit.fluxcd.io", buckets.GroupResource().String())
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.Apply(ctx, fmt.Sprintf(`
{apiVersion: source.toolkit.fluxcd.io/v1, kind: GitRepository, metadata: {name: target, namespace: %[1]s}}
---
{apiVersion: source.toolkit.fluxcd.io/v1, kind: Bucket, metadata: {name: target, namespace: %[1]s}}
`, ns))
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// requestorWith makes a service account in a namespace of its own that has the rules in the whole cluster. A new account
// per case is not affected by the API server's caches of 10 s.
func requestorWith(t *testing.T, c *env.Cluster, rules ...rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	ctx, ns := within(t), namespace(t, c)
	meta := metav1.ObjectMeta{Name: "requestor-" + ns}
	if len(rules) > 0 {
		if _, err := c.Client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := c.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ns, Name: "default"}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AwaitAllowed(ctx, true, env.ServiceAccountUser(ns, "default"), "", rules...); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := c.As(ctx, ns, "default")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// impersonating returns a client of the requestor for objects of ns.
func impersonating(t *testing.T, requestor *rest.Config, as rest.ImpersonationConfig, gvr schema.GroupVersionResource, ns string) dynamic.ResourceInterface {
	t.Helper()
	cfg := rest.CopyConfig(requestor)
	cfg.Impersonate = as
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(gvr).Namespace(ns)
}

func account(ns, name string) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{UserName: env.ServiceAccountUser(ns, name)}
}

func patch(ctx context.Context, r dynamic.ResourceInterface, subresources ...string) error {
	_, err := r.Patch(ctx, "target", types.MergePatchType, []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`),
		metav1.PatchOptions{}, subresources...)
	return err
}

// wantForbidden fails unless err is a refusal whose message contains the words.
func wantForbidden(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Errorf("%s returned %v, want forbidden", what, err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s was refused with %q, want it to mention %q", what, err, word)
		}
	}
}

// The rules here are those of the notifier in a cluster that knows constrained impersonation. Fails with the feature
// gate ConstrainedImpersonation off, and when the requestor also has the plain verb impersonate.
func TestConstrainedImpersonationAllowsOneVerbOnOneKindInEveryNamespace(t *testing.T) {
	t.Parallel()
	ctx, c := within(t), env.ControlPlane(t)
	a, b := tenantNamespace(t, c), tenantNamespace(t, c)
	requestor := requestorWith(t, c, mayBeAnyAccount, mayPatchGitRepositoriesSo)
	audit, err := c.Audit()
	if err != nil {
		t.Fatal(err)
	}

	for _, ns := range []string{a, b} {
		if err := patch(ctx, impersonating(t, requestor, account(ns, "default"), gitRepositories, ns)); err != nil {
			t.Fatalf("patch in %s: %v", ns, err)
		}
	}
	entry, err := audit.Wait(ctx, func(e env.AuditEntry) bool {
		return e.Verb == "patch" && e.ObjectRef.Namespace == a && e.ResponseStatus.Code == 200
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := account(a, "default").UserName; entry.Impersonated() != want {
		t.Errorf("audit says impersonated %q, want %q", entry.Impersonated(), want)
	}
	if !strings.HasPrefix(entry.User.Username, "system:serviceaccount:") || entry.User.Username == entry.Impersonated() {
		t.Errorf("audit says user %q, want the requestor", entry.User.Username)
	}
	if got, want := entry.Authentication.ImpersonationConstraint, "impersonate:serviceaccount"; got != want {
		t.Errorf("audit says constraint %q, want %q", got, want)
	}

	repositories := impersonating(t, requestor, account(a, "default"), gitRepositories, a)
	_, err = repositories.Get(ctx, "target", metav1.GetOptions{})
	wantForbidden(t, "get", err, "impersonate-on:serviceaccount:get")
	wantForbidden(t, "delete", repositories.Delete(ctx, "target", metav1.DeleteOptions{}), "impersonate-on:serviceaccount:delete")
	wantForbidden(t, "patch of the status", patch(ctx, repositories, "status"), "gitrepositories/status")
	wantForbidden(t, "patch of another kind", patch(ctx, impersonating(t, requestor, account(a, "default"), buckets, a)), "buckets")
	wantForbidden(t, "the tenant's account in another namespace",
		patch(ctx, impersonating(t, requestor, account(a, "default"), gitRepositories, b)), "cannot patch")
	wantForbidden(t, "the requestor's own patch", patch(ctx, impersonating(t, requestor, rest.ImpersonationConfig{}, gitRepositories, a)))

	withGroups := account(a, "default")
	withGroups.Groups = []string{"system:serviceaccounts"}
	wantForbidden(t, "an account with groups", patch(ctx, impersonating(t, requestor, withGroups, gitRepositories, a)), "cannot impersonate ")
	wantForbidden(t, "a plain user", patch(ctx, impersonating(t, requestor, rest.ImpersonationConfig{UserName: "jane"}, gitRepositories, a)))
}

func TestConstrainedImpersonationNeedsBothRules(t *testing.T) {
	t.Parallel()
	c := env.ControlPlane(t)
	ns := tenantNamespace(t, c)
	cases := map[string]struct {
		rules   []rbacv1.PolicyRule
		account string
		refusal string // empty: allowed
	}{
		"no rule": {
			account: "default", refusal: "impersonate-on:serviceaccount:patch",
		},
		"only who it may be": {
			rules: []rbacv1.PolicyRule{mayBeAnyAccount}, account: "default", refusal: "impersonate-on:serviceaccount:patch",
		},
		"only what it may do": {
			rules: []rbacv1.PolicyRule{mayPatchGitRepositoriesSo}, account: "default", refusal: "cannot impersonate:serviceaccount",
		},
		"the account's rule in the core group": {
			rules: []rbacv1.PolicyRule{mayBeAccountOfCoreGroup, mayPatchGitRepositoriesSo}, account: "default", refusal: "cannot impersonate:serviceaccount",
		},
		"an account that is named": {
			rules: []rbacv1.PolicyRule{mayBeDefault, mayPatchGitRepositoriesSo}, account: "default",
		},
		"an account that is not named": {
			rules: []rbacv1.PolicyRule{mayBeDefault, mayPatchGitRepositoriesSo}, account: "other", refusal: "cannot impersonate:serviceaccount",
		},
		"an account that does not exist": {
			rules: []rbacv1.PolicyRule{mayBeAnyAccount, mayPatchGitRepositoriesSo}, account: "missing", refusal: "cannot patch",
		},
		"the old verb alone": {
			rules: []rbacv1.PolicyRule{mayImpersonate}, account: "default",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t)
			requestor := requestorWith(t, c, tc.rules...)
			target := impersonating(t, requestor, account(ns, tc.account), gitRepositories, ns)
			err := patch(ctx, target)
			if tc.refusal != "" {
				wantForbidden(t, "patch", err, tc.refusal)
			} else if err != nil {
				t.Errorf("patch returned %v", err)
			}
		})
	}
}

// This is why the rules for older clusters are an overlay of their own: together with the constrained rules they would
// lift the constraints.
func TestPlainImpersonationIsNotBoundToAVerb(t *testing.T) {
	t.Parallel()
	ctx, c := within(t), env.ControlPlane(t)
	ns := tenantNamespace(t, c)
	requestor := requestorWith(t, c, mayImpersonate)
	for _, gvr := range []schema.GroupVersionResource{gitRepositories, buckets} {
		err := impersonating(t, requestor, account(ns, "default"), gvr, ns).Delete(ctx, "target", metav1.DeleteOptions{})
		if err != nil {
			t.Errorf("delete of %s by plain impersonation: %v", gvr.Resource, err)
		}
	}
}
