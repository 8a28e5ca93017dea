package access

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"notifier/test/env"
)

const (
	app       = `{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":"app"}`
	selected  = `{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":"*","matchLabels":{"team":"a"}}`
	resources = "gitrepositories.source.toolkit.fluxcd.io"
)

// Fails when no review precedes the first webhook, when the condition or its Event is missing, and when the condition
// stays until a webhook although the Role exists.
func TestAReceiverWhoseAccountMayNotPatchIsReportedBeforeItsFirstWebhook(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.ServiceAccount(s.Ctx, s.Tenant.Namespace, "weak"))
	for _, labels := range []string{"one", "two"} {
		s.Must(s.Tenant.Object(s.Ctx, "GitRepository", labels, map[string]string{"team": "a"}, ""))
	}
	s.receiver("named", "weak", app)
	s.receiver("selecting", "weak", selected)
	s.denied("named", "Forbidden", `service account "weak" may not patch `+resources+` "app"`, "a Role and a RoleBinding", s.Tenant.Namespace)
	s.denied("selecting", "Forbidden", `service account "weak" may not patch `+resources+` "*"`, "a Role and a RoleBinding")

	s.Must(s.Tenant.Grant(s.Ctx, s.Tenant.Namespace, "weak", []string{"patch"}, env.Patchable...))
	s.cleared("named")
	s.cleared("selecting")
	// When the right is revoked the condition returns, without a webhook.
	s.Must(s.Tenant.Revoke(s.Ctx, s.Tenant.Namespace, "weak"))
	s.denied("named", "Forbidden", `"weak"`)
}

// Fails when a missing account is reported as one without rights, or when a missing account with rights is reported at
// all: the API server lets it write.
func TestAServiceAccountThatDoesNotExistIsReportedAsSuch(t *testing.T) {
	s := setUp(t)
	s.receiver("app", "missing", app+`,{"apiVersion":"kustomize.toolkit.fluxcd.io/v1","kind":"Kustomization","name":"app"}`)
	s.denied("app", "ServiceAccountNotFound", `service account "missing" does not exist in namespace `+s.Tenant.Namespace, "create it")
	s.Must(s.Tenant.Grant(s.Ctx, s.Tenant.Namespace, "missing", []string{"patch"}, env.Patchable...))
	s.cleared("app")
}

// Fails when a kind that the cluster does not have is reported as a missing permission, or only with the first webhook.
func TestAKindThatIsNotInstalledIsReportedAsSuch(t *testing.T) {
	s := setUp(t)
	s.receiver("app", "default", `{"apiVersion":"example.com/v1","kind":"Widget","name":"w"},`+app)
	s.denied("app", "KindNotFound", `Widget "w" cannot be written`, "apiVersion", "definition installed")
}

// A Role may name the objects. Fails when only the right on all objects of the kind is reviewed.
func TestARoleThatNamesTheObjectsIsEnough(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.ServiceAccount(s.Ctx, s.Tenant.Namespace, "narrow"))
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", "app", map[string]string{"team": "a"}, ""))
	meta := metav1.ObjectMeta{Name: "narrow"}
	rule := rbacv1.PolicyRule{
		APIGroups: []string{"source.toolkit.fluxcd.io"}, Resources: []string{"gitrepositories"}, ResourceNames: []string{"app"}, Verbs: []string{"patch"},
	}
	rbac := s.System.Client.RbacV1()
	_, err := rbac.Roles(s.Tenant.Namespace).Create(s.Ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{})
	s.Must(err)
	_, err = rbac.RoleBindings(s.Tenant.Namespace).Create(s.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "narrow"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.Tenant.Namespace, Name: "narrow"}},
	}, metav1.CreateOptions{})
	s.Must(err)
	s.Must(s.System.AwaitAllowed(s.Ctx, true, env.ServiceAccountUser(s.Tenant.Namespace, "narrow"), s.Tenant.Namespace, rule))
	s.receiver("named", "narrow", app)
	s.receiver("selecting", "narrow", selected)
	s.never("named")
	s.never("selecting")
	s.receiver("other", "narrow", strings.Replace(app, `"app"`, `"other"`, 1))
	s.denied("other", "Forbidden", `"other"`)
}

// A refusal of an admission policy is not one of RBAC. Fails when a review, which allows the account, clears the refusal
// of a write. Fails also when a write's refusal for a missing Role is not cleared when the Role exists.
func TestAReviewTakesBackOnlyWhatARoleMends(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.ServiceAccount(s.Ctx, s.Tenant.Namespace, "weak"))
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", "app", nil, ""))
	path := s.receiver("app", "weak", app)
	s.denied("app", "Forbidden")
	s.Must(s.Tenant.Apply(s.Ctx, fmt.Sprintf(`
{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"frozen-%[1]s"},"spec":{
"failurePolicy":"Fail","matchConstraints":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":%[1]q}},"resourceRules":[
{"apiGroups":["source.toolkit.fluxcd.io"],"apiVersions":["*"],"resources":["gitrepositories"],"operations":["UPDATE"]}]},
"validations":[{"expression":"false","message":"frozen","reason":"Forbidden"}]}}
---
{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"frozen-%[1]s"},
"spec":{"policyName":"frozen-%[1]s","validationActions":["Deny"]}}`, s.Tenant.Namespace)))
	s.Must(env.Eventually(s.Within(soon), func(ctx context.Context) error { // the API server enforces a policy some time after its creation
		resource := s.System.Dynamic.Resource(env.Kinds["GitRepository"]).Namespace(s.Tenant.Namespace)
		_, err := resource.Patch(ctx, "app", types.MergePatchType, []byte(`{"metadata":{"annotations":{"frozen":"yes"}}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("the policy is not enforced")
		}
		return nil
	}))
	s.Must(s.Tenant.Grant(s.Ctx, s.Tenant.Namespace, "weak", []string{"patch"}, env.Patchable...))
	s.cleared("app")
	push := func() {
		s.Webhook(path)
	}
	push()
	s.denied("app", "Forbidden", "frozen")
	audit, err := s.System.Audit()
	s.Must(err)
	for range 2 { // rounds of reviews, all of which allow the account
		reviews := func(e env.AuditEntry) bool {
			return e.ObjectRef.Resource == "selfsubjectaccessreviews" && e.Impersonated() == env.ServiceAccountUser(s.Tenant.Namespace, "weak")
		}
		_, err := audit.Wait(s.Within(3*interval), reviews)
		s.Must(err)
		audit, err = s.System.Audit()
		s.Must(err)
	}
	s.denied("app", "Forbidden", "frozen")
}
