package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"notifier/test/env"
)

// identity is the process's own, or one that it impersonates.
type identity struct {
	*kubernetes.Clientset
	dynamic *dynamic.DynamicClient
}

// self returns the process's identity, which may impersonate another.
func (s *fixture) self(as rest.ImpersonationConfig) identity {
	s.Helper()
	cfg, err := s.System.As(s.Ctx, env.SystemNamespace, env.ServiceAccount)
	s.Must(err)
	cfg.Impersonate = as
	client, err := kubernetes.NewForConfig(cfg)
	s.Must(err)
	d, err := dynamic.NewForConfig(cfg)
	s.Must(err)
	return identity{client, d}
}

// objects returns a client for a kind of the tenant's objects.
func (i identity) objects(t *env.Tenant, kind string) dynamic.ResourceInterface {
	return i.dynamic.Resource(env.Kinds[kind]).Namespace(t.Namespace)
}

// patchOf patches an object's annotation.
func patchOf(ctx context.Context, r dynamic.ResourceInterface, name string, subresources ...string) error {
	_, err := r.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`), metav1.PatchOptions{}, subresources...)
	return err
}

func (s *fixture) forbidden(what string, err error) {
	s.Helper()
	if !apierrors.IsForbidden(err) {
		s.Errorf("%s: got %v, want it to be forbidden", what, err)
	}
}

// Fails when the role is granted list on Secrets, or any write on them.
func TestSecretsAreReadOneByOneAndNeverListed(t *testing.T) {
	s := setUp(t)
	tenant, self := s.NewTenant(), s.self(rest.ImpersonationConfig{})
	s.Must(tenant.Secret(s.Ctx, "token", map[string]string{"token": "t"}))
	secrets := self.CoreV1().Secrets(tenant.Namespace)
	_, err := secrets.Get(s.Ctx, "token", metav1.GetOptions{})
	s.Must(err)
	w, err := secrets.Watch(s.Ctx, metav1.ListOptions{FieldSelector: "metadata.name=token"})
	s.Must(err)
	w.Stop()
	_, err = secrets.List(s.Ctx, metav1.ListOptions{})
	s.forbidden("list Secrets of a namespace", err)
	_, err = self.CoreV1().Secrets("").List(s.Ctx, metav1.ListOptions{})
	s.forbidden("list all Secrets", err)
	_, err = secrets.Create(s.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
	s.forbidden("create a Secret", err)
	_, err = secrets.Patch(s.Ctx, "token", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	s.forbidden("patch a Secret", err)
	s.forbidden("delete a Secret", secrets.Delete(s.Ctx, "token", metav1.DeleteOptions{}))
}

// T2: fails when the role is granted a write on a Flux kind, or the read of a single object, which no code needs.
func TestT2NoFluxObjectIsWrittenByTheProcessItself(t *testing.T) {
	s := setUp(t)
	tenant, self := s.NewTenant(), s.self(rest.ImpersonationConfig{})
	for _, kind := range []string{"GitRepository", "OCIRepository", "Kustomization", "HelmRelease"} {
		s.Must(tenant.Object(s.Ctx, kind, "app", nil, ""))
		objects := self.objects(tenant, kind)
		obj := s.Read(tenant, kind, "app")
		_, err := objects.Get(s.Ctx, "app", metav1.GetOptions{})
		s.forbidden("get "+kind, err)
		s.forbidden("patch "+kind, patchOf(s.Ctx, objects, "app"))
		s.forbidden("patch status of "+kind, patchOf(s.Ctx, objects, "app", "status"))
		_, err = objects.Update(s.Ctx, obj, metav1.UpdateOptions{})
		s.forbidden("update "+kind, err)
		obj.SetManagedFields(nil) // an apply must not carry them
		_, err = objects.Apply(s.Ctx, "app", obj, metav1.ApplyOptions{FieldManager: "x", Force: true})
		s.forbidden("apply "+kind, err)
		s.forbidden("delete "+kind, objects.Delete(s.Ctx, "app", metav1.DeleteOptions{}))
		s.forbidden("delete all of "+kind, objects.DeleteCollection(s.Ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		obj.SetName("new")
		obj.SetResourceVersion("")
		_, err = objects.Create(s.Ctx, obj, metav1.CreateOptions{})
		s.forbidden("create "+kind, err)
	}
}

// T2: with constrained impersonation the impersonated identity may patch, where its own RBAC permits it, and nothing
// else. Fails when the role gets the plain verb impersonate, impersonation of users or groups, or another verb or kind
// for it.
func TestT2ImpersonationIsGoodForOneVerbOnFluxKindsOnly(t *testing.T) {
	s := setUp(t)
	tenant := s.NewTenant()
	s.Must(tenant.Object(s.Ctx, "GitRepository", "app", nil, ""))
	s.Must(tenant.Secret(s.Ctx, "token", map[string]string{"token": "t"}))
	s.Must(s.System.ServiceAccount(s.Ctx, tenant.Namespace, "strong"))
	s.Must(s.System.Grant(s.Ctx, tenant.Namespace, "strong", []string{"*"}, append([]string{
		"secrets", "configmaps", "pods", "serviceaccounts/token", "gitrepositories/status.source.toolkit.fluxcd.io",
	}, env.Patchable...)...))
	account := env.ServiceAccountUser(tenant.Namespace, "strong")
	strong := s.self(rest.ImpersonationConfig{UserName: account})
	objects := strong.objects(tenant, "GitRepository")
	// The permission itself, which the rest of the proof needs.
	s.Must(patchOf(s.Ctx, objects, "app"))

	obj := s.Read(tenant, "GitRepository", "app")
	_, err := objects.Update(s.Ctx, obj, metav1.UpdateOptions{})
	s.forbidden("update", err)
	s.forbidden("delete", objects.Delete(s.Ctx, "app", metav1.DeleteOptions{}))
	s.forbidden("patch status", patchOf(s.Ctx, objects, "app", "status"))
	_, err = objects.Get(s.Ctx, "app", metav1.GetOptions{})
	s.forbidden("get", err)
	_, err = strong.CoreV1().Secrets(tenant.Namespace).Get(s.Ctx, "token", metav1.GetOptions{})
	s.forbidden("get a Secret", err)
	_, err = strong.CoreV1().Secrets(tenant.Namespace).Patch(s.Ctx, "token", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	s.forbidden("patch a Secret", err)
	_, err = strong.CoreV1().ConfigMaps(tenant.Namespace).Patch(s.Ctx, "kube-root-ca.crt", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	s.forbidden("patch a ConfigMap", err)
	_, err = strong.CoreV1().ServiceAccounts(tenant.Namespace).CreateToken(s.Ctx, "strong", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	s.forbidden("make a token", err)

	// The account's rights are reviewed as the account; no other request is allowed as it.
	review := authorizationv1.ResourceAttributes{Verb: "patch", Group: "source.toolkit.fluxcd.io", Resource: "gitrepositories", Namespace: tenant.Namespace}
	access := strong.AuthorizationV1()
	answer, err := access.SelfSubjectAccessReviews().Create(s.Ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &review},
	}, metav1.CreateOptions{})
	s.Must(err)
	if !answer.Status.Allowed {
		t.Errorf("the account may patch, and the review says no: %+v", answer.Status)
	}
	_, err = access.SubjectAccessReviews().Create(s.Ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: account, ResourceAttributes: &review},
	}, metav1.CreateOptions{})
	s.forbidden("a review of others", err)
	_, err = access.SelfSubjectRulesReviews().Create(s.Ctx, &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: tenant.Namespace},
	}, metav1.CreateOptions{})
	s.forbidden("a list of all rules", err)

	for what, as := range map[string]rest.ImpersonationConfig{
		"a user":                       {UserName: "somebody"},
		"the administrator":            {UserName: "system:admin"},
		"a node":                       {UserName: "system:node:node-1"},
		"an account with a group more": {UserName: account, Groups: []string{"system:masters"}},
		"a user of a group":            {UserName: "somebody", Groups: []string{"system:masters"}},
		"an account with extra":        {UserName: account, Extra: map[string][]string{"scopes": {"all"}}},
		"an account with a UID":        {UserName: account, UID: "1"},
	} {
		s.forbidden("patch as "+what, patchOf(s.Ctx, s.self(as).objects(tenant, "GitRepository"), "app"))
	}
	// An account without RBAC rights is refused, for every requestor.
	s.Must(s.System.ServiceAccount(s.Ctx, tenant.Namespace, "weak"))
	weak := s.self(rest.ImpersonationConfig{UserName: env.ServiceAccountUser(tenant.Namespace, "weak")})
	s.forbidden("patch as an account that may not", patchOf(s.Ctx, weak.objects(tenant, "GitRepository"), "app"))
}

// The admission policy narrows patch on the three kinds to the removal of Flux's finalizer from an object that is being
// deleted. Fails when one of its expressions is removed, or the whole policy.
func TestAPatchOfTheThreeKindsMayOnlyTakeFluxsFinalizerAway(t *testing.T) {
	s := setUp(t)
	tenant, self := s.NewTenant(), s.self(rest.ImpersonationConfig{})
	specs := map[string]string{
		"Receiver": `{"type":"generic","secretRef":{"name":"t"},"resources":[{"kind":"GitRepository","name":"app"}]}`,
		"Provider": `{"type":"generic","address":"https://example.com"}`,
		"Alert":    `{"providerRef":{"name":"app"},"eventSources":[{"kind":"Kustomization","name":"*"}]}`,
	}
	s.policyInForce(self, tenant, specs["Alert"])
	for kind, spec := range specs {
		s.Must(tenant.Object(s.Ctx, kind, "app", nil, spec))
		objects := self.objects(tenant, kind)
		admin := s.System.Dynamic.Resource(env.Kinds[kind]).Namespace(tenant.Namespace)
		patch := func(body string) error {
			_, err := objects.Patch(s.Ctx, "app", types.MergePatchType, []byte(body), metav1.PatchOptions{})
			return err
		}
		_, err := admin.Patch(s.Ctx, "app", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":["example.com/other","finalizers.fluxcd.io"]}}`), metav1.PatchOptions{})
		s.Must(err)
		s.refuseAll("a living "+kind, patch)
		s.forbidden("take Flux's finalizer from a living "+kind, patch(`{"metadata":{"finalizers":["example.com/other"]}}`))
		obj, err := objects.Get(s.Ctx, "app", metav1.GetOptions{})
		s.Must(err)
		_, err = objects.Update(s.Ctx, obj, metav1.UpdateOptions{})
		s.forbidden("update "+kind, err)
		s.forbidden("delete "+kind, objects.Delete(s.Ctx, "app", metav1.DeleteOptions{}))
		obj.SetName("new")
		obj.SetResourceVersion("")
		_, err = objects.Create(s.Ctx, obj, metav1.CreateOptions{})
		s.forbidden("create "+kind, err)
		// It may write the status, as a whole, and that changes nothing else.
		_, err = objects.Patch(s.Ctx, "app", types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`), metav1.PatchOptions{}, "status")
		s.forbidden("patch the status of "+kind, err)
		s.Must(retry.RetryOnConflict(retry.DefaultRetry, func() error { // notifier writes the status as well
			obj, err := objects.Get(s.Ctx, "app", metav1.GetOptions{})
			if err != nil {
				return err
			}
			obj.Object["spec"].(map[string]any)["suspend"] = true
			obj.Object["status"] = map[string]any{"observedGeneration": int64(1)}
			_, err = objects.UpdateStatus(s.Ctx, obj, metav1.UpdateOptions{})
			return err
		}))

		s.Must(admin.Delete(s.Ctx, "app", metav1.DeleteOptions{}))
		s.refuseAll("a dying "+kind, patch)
		s.Must(patch(`{"metadata":{"finalizers":["example.com/other"]}}`))
		obj, err = admin.Get(s.Ctx, "app", metav1.GetOptions{})
		s.Must(err)
		if spec := obj.Object["spec"].(map[string]any); spec["suspend"] != nil || len(obj.GetFinalizers()) != 1 {
			t.Errorf("%s: after all that the spec is %v, the finalizers are %v", kind, spec, obj.GetFinalizers())
		}
		_, err = admin.Patch(s.Ctx, "app", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		s.Must(err)
	}
}

// refuseAll fails the test unless every patch is refused that does more than remove Flux's finalizer. The object has the
// finalizers example.com/other and finalizers.fluxcd.io.
func (s *fixture) refuseAll(what string, patch func(body string) error) {
	s.Helper()
	for change, body := range map[string]string{
		"the spec":             `{"spec":{"suspend":true}}`,
		"a label":              `{"metadata":{"labels":{"a":"b"}}}`,
		"an annotation":        `{"metadata":{"annotations":{"a":"b"}}}`,
		"an owner":             `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"y"}]}}`,
		"a finalizer more":     `{"metadata":{"finalizers":["example.com/other","finalizers.fluxcd.io","example.com/mine"]}}`,
		"another's finalizer":  `{"metadata":{"finalizers":["finalizers.fluxcd.io"]}}`,
		"all finalizers":       `{"metadata":{"finalizers":null}}`,
		"finalizer and a spec": `{"metadata":{"finalizers":["example.com/other"]},"spec":{"suspend":true}}`,
	} {
		// The API server itself refuses some of it on a dying object.
		if err := patch(body); !apierrors.IsForbidden(err) && !(strings.HasPrefix(what, "a dying") && apierrors.IsInvalid(err)) {
			s.Errorf("%s: patch %s: got %v, want it to be refused", what, change, err)
		}
	}
}

// policyInForce waits until the API server enforces the admission policy, a moment after it was written.
func (s *fixture) policyInForce(self identity, t *env.Tenant, spec string) {
	s.Helper()
	s.Must(t.Object(s.Ctx, "Alert", "probe", nil, spec))
	s.Must(env.Eventually(s.Ctx, func(ctx context.Context) error {
		change := fmt.Appendf(nil, `{"metadata":{"labels":{"try":"%d"}}}`, time.Now().UnixNano()) // a patch that changes nothing is let through
		_, err := self.objects(t, "Alert").Patch(ctx, "probe", types.MergePatchType, change, metav1.PatchOptions{})
		switch {
		case err == nil:
			return errors.New("the policy is not in force yet")
		case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "notifier-finalizers"):
			return nil
		}
		return err
	}))
}

// Fails when the role is granted any of it. The list has the rights that an attacker would want.
// TestT2TheIdentityHoldsNoWildcardAndNoOtherWrite checks all rights that a role can grant.
func TestRequestsThatHelpAnAttackerAreForbidden(t *testing.T) {
	s := setUp(t)
	tenant, self := s.NewTenant(), s.self(rest.ImpersonationConfig{})
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	meta := metav1.ObjectMeta{Name: "new"}
	for _, namespace := range []string{tenant.Namespace, env.SystemNamespace, metav1.NamespaceSystem} {
		pod := s.deployment().Spec.Template.Spec
		_, err := self.CoreV1().Pods(namespace).Create(s.Ctx, &corev1.Pod{ObjectMeta: meta, Spec: pod}, dry)
		s.forbidden("create a Pod in "+namespace, err)
		_, err = self.CoreV1().ServiceAccounts(namespace).CreateToken(s.Ctx, "default", &authenticationv1.TokenRequest{}, dry)
		s.forbidden("make a token in "+namespace, err)
		_, err = self.CoreV1().ServiceAccounts(namespace).Create(s.Ctx, &corev1.ServiceAccount{ObjectMeta: meta}, dry)
		s.forbidden("create a ServiceAccount in "+namespace, err)
		_, err = self.RbacV1().RoleBindings(namespace).Create(s.Ctx, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		}, dry)
		s.forbidden("create a RoleBinding in "+namespace, err)
		_, err = self.AppsV1().Deployments(namespace).Patch(s.Ctx, "notification-controller", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
		s.forbidden("patch a Deployment in "+namespace, err)
		_, err = self.CoreV1().ConfigMaps(namespace).List(s.Ctx, metav1.ListOptions{})
		s.forbidden("list ConfigMaps in "+namespace, err)
	}
	_, err := self.CoordinationV1().Leases(metav1.NamespaceSystem).List(s.Ctx, metav1.ListOptions{})
	s.forbidden("list Leases of another namespace", err)
	_, err = self.RbacV1().ClusterRoles().Patch(s.Ctx, "notifier", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	s.forbidden("patch its own ClusterRole", err)
	_, err = self.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Patch(s.Ctx, "notifier-finalizers", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	s.forbidden("patch the policy that binds it", err)
	err = self.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(s.Ctx, "notifier-finalizers", metav1.DeleteOptions{})
	s.forbidden("delete the policy that binds it", err)
	_, err = self.CoreV1().Namespaces().Create(s.Ctx, &corev1.Namespace{ObjectMeta: meta}, dry)
	s.forbidden("create a Namespace", err)
	_, err = self.CoreV1().Nodes().List(s.Ctx, metav1.ListOptions{})
	s.forbidden("list Nodes", err)
}
