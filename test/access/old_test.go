package access

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// before136 is the control plane's argument for an API server without constrained impersonation, as before Kubernetes
// 1.36.
const before136 = "--apiserver-flag=--feature-gates=ConstrainedImpersonation=false"

// legacy installs config/legacy-impersonation, except the objects that need a kubelet or a volume.
func (s *fixture) legacy() {
	s.Helper()
	manifests, err := env.Manifests("legacy-impersonation")
	s.Must(err)
	for _, r := range manifests.Resources() {
		if strings.HasSuffix(r.GetName(), "-legacy-impersonation") {
			text, err := r.AsYAML()
			s.Must(err)
			_, err = s.System.Apply(s.Ctx, string(text))
			s.Must(err)
		}
	}
}

// Fails when RBAC's review, which reports the rules as allowing, is believed; when the fault is reported in one place
// only; when a report needs a webhook; or when it stays after the overlay was installed.
func TestAnAPIServerBefore136IsReportedWithTheOverlayThatMendsIt(t *testing.T) {
	s := ofItsOwn(t, before136)
	overlay := []string{"1.36", "config/legacy-impersonation"}
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", "app", nil, ""))
	path := env.HookPath("t", "before", s.Tenant.Namespace)
	s.Must(s.Tenant.Secret(s.Ctx, "before-token", map[string]string{"token": "t"}))
	s.Must(s.Tenant.Object(s.Ctx, "Receiver", "before", nil, `{"type":"generic","secretRef":{"name":"before-token"},"resources":[`+app+`]}`))
	s.Start(env.NotifierOptions{Args: flags})

	s.said("[~] impersonation: ", overlay...)
	s.metric("notifier_impersonation_refused", 1)
	s.logged(append(overlay, "cannot be impersonated")...)
	s.denied("before", "ImpersonationRefused", overlay...)
	s.receiver("after", "default", app)
	s.denied("after", "ImpersonationRefused", overlay...)

	s.Webhook(path)
	s.logged("reconcile request refused")
	s.denied("before", "ImpersonationRefused", overlay...) // the same condition, not the API server's words beside it

	s.legacy()
	s.said("[+] impersonation")
	s.metric("notifier_impersonation_refused", 0)
	s.cleared("before")
	s.cleared("after")
	s.Trigger(path, "GitRepository", "app")
	// The accounts' rights are reviewed there as well.
	s.Must(s.Tenant.ServiceAccount(s.Ctx, s.Tenant.Namespace, "weak"))
	s.receiver("weak", "weak", app)
	s.denied("weak", "Forbidden", `service account "weak" may not patch`)
}

// Fails when a ClusterRole that lacks the rules is reported as an old API server, or not at all.
func TestMissingRBACRulesAreReportedWithTheirRemedy(t *testing.T) {
	s := ofItsOwn(t)
	roles := s.System.Client.RbacV1().ClusterRoles()
	without := func(lacks func(verb, resource string) bool) {
		t.Helper()
		s.Must(s.System.Reinstall(s.Ctx))
		role, err := roles.Get(s.Ctx, "notifier", metav1.GetOptions{})
		s.Must(err)
		kept := role.Rules[:0]
		for _, rule := range role.Rules {
			if !lacks(rule.Verbs[0], rule.Resources[0]) {
				kept = append(kept, rule)
			}
		}
		role.Rules = kept
		_, err = roles.Update(s.Ctx, role, metav1.UpdateOptions{})
		s.Must(err)
	}
	without(func(verb, _ string) bool { return verb == "impersonate:serviceaccount" })
	s.Start(env.NotifierOptions{Args: flags})
	s.said("[~] impersonation: ", "may not impersonate", "config/flux or config/default")
	s.receiver("app", "default", app)
	s.denied("app", "ImpersonationRefused", "config/flux or config/default")

	without(func(verb, resource string) bool {
		return strings.HasPrefix(verb, "impersonate-on:") && resource == "gitrepositories"
	})
	s.said("[~] impersonation: ", "gitrepositories.source.toolkit.fluxcd.io", "config/flux or config/default")
	s.denied("app", "ImpersonationRefused", "gitrepositories.source.toolkit.fluxcd.io")

	// Writes may pass where only the reviews are left out, as with the ClusterRole of an earlier version: no Receiver
	// gets a report.
	without(func(verb, _ string) bool { return verb == "impersonate-on:serviceaccount:create" })
	s.said("[~] impersonation: ", "may not ask", "config/flux or config/default")
	path := env.HookPath("t", "app", s.Tenant.Namespace)
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", "app", nil, ""))
	s.Trigger(path, "GitRepository", "app")

	s.Must(s.System.Reinstall(s.Ctx))
	s.said("[+] impersonation")
	s.cleared("app")
	if n := strings.Count(s.Logs(), "service accounts can be impersonated now"); n == 0 {
		t.Error("the log does not say that it was mended")
	}
}
