package install

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"notifier/test/env"
)

// allowed is every write that the process may do, "verb resource.group" or, for one object, "verb resource.group/name".
// Any other write in the API server's list is a fault.
var allowed = []string{
	// The reports to the owners of the three kinds.
	"update receivers/status.notification.toolkit.fluxcd.io", "update alerts/status.notification.toolkit.fluxcd.io",
	"update providers/status.notification.toolkit.fluxcd.io",
	"create events", "patch events", "create events.events.k8s.io", "patch events.events.k8s.io",
	// Narrowed to a finalizer by the admission policy.
	"patch receivers.notification.toolkit.fluxcd.io", "patch alerts.notification.toolkit.fluxcd.io", "patch providers.notification.toolkit.fluxcd.io",
	// The impersonation for reconcile requests, and its permitted use.
	"impersonate:serviceaccount serviceaccounts.authentication.k8s.io",
	"impersonate-on:serviceaccount:create selfsubjectaccessreviews.authorization.k8s.io",
	// The check of an API user's token, and of that user's rights.
	"create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io",
	// Every user may review its own identity and rights.
	"create selfsubjectaccessreviews.authorization.k8s.io", "create selfsubjectrulesreviews.authorization.k8s.io",
	"create selfsubjectreviews.authentication.k8s.io",
}

// reconcilable are the groups whose objects it may patch while it impersonates a service account.
var reconcilable = []string{
	"source.toolkit.fluxcd.io", "source.extensions.fluxcd.io", "kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io", "image.toolkit.fluxcd.io",
}

// T2: the API server itself lists the rights of the process's identity, in a tenant's namespace and in its own. Fails
// when the ClusterRole gets a wildcard, or any write beyond the list.
func TestT2TheIdentityHoldsNoWildcardAndNoOtherWrite(t *testing.T) {
	s := setUp(t)
	self, err := s.System.As(s.Ctx, env.SystemNamespace, env.ServiceAccount)
	s.Must(err)
	client, err := kubernetes.NewForConfig(self)
	s.Must(err)
	for _, namespace := range []string{s.NewTenant().Namespace, env.SystemNamespace} {
		review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(s.Ctx, &authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
		}, metav1.CreateOptions{})
		s.Must(err)
		if review.Status.Incomplete || len(review.Status.ResourceRules) == 0 {
			t.Fatalf("the list is incomplete: %s", review.Status.EvaluationError)
		}
		for _, rule := range review.Status.ResourceRules {
			for _, may := range permissions(rule) {
				if !harmless(may) && !slices.Contains(allowed, may) {
					t.Errorf("in %s the process may %s", namespace, may)
				}
			}
		}
		for _, rule := range review.Status.NonResourceRules {
			if slices.ContainsFunc(rule.Verbs, func(v string) bool { return v != "get" && v != "head" }) {
				t.Errorf("the process may %v %v", rule.Verbs, rule.NonResourceURLs)
			}
		}
	}
}

// permissions returns the single permissions of a rule.
func permissions(rule authorizationv1.ResourceRule) []string {
	names := []string{""}
	if len(rule.ResourceNames) > 0 {
		names = rule.ResourceNames
	}
	var all []string
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					may := verb + " " + resource
					if group != "" {
						may += "." + group
					}
					if name != "" {
						may += "/" + name
					}
					all = append(all, may)
				}
			}
		}
	}
	return all
}

// harmless reports whether a permission only reads, or holds only while a tenant's service account is impersonated. Of
// Secrets it permits get and watch, and no list; of Flux's objects list and watch, and no get, which no code uses.
func harmless(may string) bool {
	if strings.Contains(may, "*") {
		return false
	}
	verb, what, _ := strings.Cut(may, " ")
	switch verb {
	case "get":
		_, group, _ := strings.Cut(what, ".")
		return !slices.Contains(reconcilable, group)
	case "watch":
		return true
	case "list":
		return !strings.HasPrefix(what, "secrets")
	case "impersonate-on:serviceaccount:patch":
		_, group, _ := strings.Cut(what, ".")
		return slices.Contains(reconcilable, group) && !strings.Contains(what, "/")
	}
	return false
}

// Fails when the check of the test above would miss a dangerous permission.
func TestTheJudgeOfPermissionsSeesWhatMatters(t *testing.T) {
	for may, want := range map[string]bool{
		"get secrets": true, "list secrets": false, "list *": false, "* pods": false, "create pods": false,
		"get gitrepositories.source.toolkit.fluxcd.io": false, "list gitrepositories.source.toolkit.fluxcd.io": true,
		"impersonate-on:serviceaccount:patch gitrepositories.source.toolkit.fluxcd.io": true,
		"impersonate-on:serviceaccount:patch deployments.apps":                         false,
		"impersonate-on:user-info:patch gitrepositories.source.toolkit.fluxcd.io":      false,
		"patch gitrepositories.source.toolkit.fluxcd.io":                               false,
	} {
		if got := harmless(may); got != want {
			t.Errorf("%s: got %t", may, got)
		}
	}
	got := permissions(authorizationv1.ResourceRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"a"}})
	if fmt.Sprint(got) != "[get secrets/a]" {
		t.Errorf("got %v", got)
	}
}
