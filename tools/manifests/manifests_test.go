// Package manifests_test builds the kustomizations of config/ and holds what comes out to what the documentation promises.
package manifests_test

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// installations are the ways to install, and the namespace of each.
var installations = map[string]string{
	"../../config/default":              "notification-system",
	"../../config/legacy-impersonation": "notification-system",
	"../../config/flux":                 "flux-system",
	"testdata/bootstrap":                "flux-system",
}

// account is the service account that every installation makes, whatever the namespace.
const account = "notifier"

// mayWrite is everything the process may do as itself but read, "verb group/resource".
var mayWrite = []string{
	"create /events",
	"impersonate-on:serviceaccount:create authorization.k8s.io/selfsubjectaccessreviews",
	"impersonate-on:serviceaccount:patch helm.toolkit.fluxcd.io/helmreleases",
	"impersonate-on:serviceaccount:patch image.toolkit.fluxcd.io/imagepolicies",
	"impersonate-on:serviceaccount:patch image.toolkit.fluxcd.io/imagerepositories",
	"impersonate-on:serviceaccount:patch image.toolkit.fluxcd.io/imageupdateautomations",
	"impersonate-on:serviceaccount:patch kustomize.toolkit.fluxcd.io/kustomizations",
	"impersonate-on:serviceaccount:patch source.extensions.fluxcd.io/artifactgenerators",
	"impersonate-on:serviceaccount:patch source.toolkit.fluxcd.io/buckets",
	"impersonate-on:serviceaccount:patch source.toolkit.fluxcd.io/externalartifacts",
	"impersonate-on:serviceaccount:patch source.toolkit.fluxcd.io/gitrepositories",
	"impersonate-on:serviceaccount:patch source.toolkit.fluxcd.io/helmcharts",
	"impersonate-on:serviceaccount:patch source.toolkit.fluxcd.io/helmrepositories",
	"impersonate-on:serviceaccount:patch source.toolkit.fluxcd.io/ocirepositories",
	"impersonate:serviceaccount authentication.k8s.io/serviceaccounts",
	"patch /events",
	"patch notification.toolkit.fluxcd.io/alerts",
	"patch notification.toolkit.fluxcd.io/providers",
	"patch notification.toolkit.fluxcd.io/receivers",
	"update notification.toolkit.fluxcd.io/alerts/status",
	"update notification.toolkit.fluxcd.io/providers/status",
	"update notification.toolkit.fluxcd.io/receivers/status",
}

// TestProcessMayWriteNoMoreThanListed fails when a rule is added to a role that is bound to the process's account.
func TestProcessMayWriteNoMoreThanListed(t *testing.T) {
	for dir, namespace := range installations {
		t.Run(dir, func(t *testing.T) {
			want := slices.Clone(mayWrite)
			if dir == "../../config/legacy-impersonation" || dir == "testdata/bootstrap" {
				want = append(want, "impersonate /serviceaccounts")
			}
			if strings.HasPrefix(dir, "../../config/") && dir != "../../config/flux" { // with the API, which asks about its users
				want = append(want, "create authentication.k8s.io/tokenreviews", "create authorization.k8s.io/subjectaccessreviews")
			}
			var got []string
			for _, rule := range boundRules(t, build(t, dir), namespace) {
				for _, verb := range rule.Verbs {
					if verb == "get" || verb == "list" || verb == "watch" {
						continue
					}
					for _, r := range rule.Resources {
						got = append(got, verb+" "+rule.APIGroups[0]+"/"+r)
					}
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// TestRulesHaveNoWildcardAndNeverListSecrets fails when a rule says "*", names several groups at once, or lets anyone list
// Secrets.
func TestRulesHaveNoWildcardAndNeverListSecrets(t *testing.T) {
	for dir := range installations {
		t.Run(dir, func(t *testing.T) {
			for _, role := range roles(t, build(t, dir)) {
				for _, rule := range role.Rules {
					if len(rule.APIGroups) != 1 || len(rule.NonResourceURLs) != 0 {
						t.Errorf("%s: rule %v does not name one group", role.Name, rule)
					}
					for _, word := range slices.Concat(rule.Verbs, rule.APIGroups, rule.Resources) {
						if strings.Contains(word, "*") {
							t.Errorf("%s: rule %v has a wildcard", role.Name, rule)
						}
					}
					if slices.Contains(rule.Resources, "secrets") && !slices.Equal(rule.Verbs, []string{"get", "watch"}) {
						t.Errorf("%s: %v on secrets", role.Name, rule.Verbs)
					}
				}
			}
		})
	}
}

// TestEveryNamespaceIsTheInstallations fails when an overlay moves the account but not what names it: a binding's subject, the
// admission policy's condition; or gives a namespace to a cluster-wide object.
func TestEveryNamespaceIsTheInstallations(t *testing.T) {
	clusterWide := []string{
		"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	}
	for dir, namespace := range installations {
		t.Run(dir, func(t *testing.T) {
			for _, r := range build(t, dir).Resources() {
				want := namespace
				if slices.Contains(clusterWide, r.GetKind()) {
					want = ""
				}
				if got := r.GetNamespace(); got != want {
					t.Errorf("%s %s is in namespace %q, want %q", r.GetKind(), r.GetName(), got, want)
				}
				switch r.GetKind() {
				case "ClusterRoleBinding", "RoleBinding":
					for _, s := range decode[rbacv1.RoleBinding](t, r).Subjects {
						if s.Namespace != namespace || s.Name != account {
							t.Errorf("%s is for %s/%s", r.GetName(), s.Namespace, s.Name)
						}
					}
				case "ValidatingAdmissionPolicy":
					got := decode[admissionv1.ValidatingAdmissionPolicy](t, r).Spec.MatchConditions[0].Expression
					if want := "request.userInfo.username == 'system:serviceaccount:" + namespace + ":" + account + "'"; got != want {
						t.Errorf("policy is for %s, want %s", got, want)
					}
				}
			}
		})
	}
}

// TestFluxFindsWhatItHardCodes fails when a name, port or label changes that Flux's controllers and policies use.
func TestFluxFindsWhatItHardCodes(t *testing.T) {
	for dir := range installations {
		t.Run(dir, func(t *testing.T) {
			m := build(t, dir)
			pod := decode[appsv1.Deployment](t, one(t, m, "Deployment", "notification-controller")).Spec.Template
			if pod.Labels["app"] != "notification-controller" {
				t.Errorf("pod labels %v", pod.Labels)
			}
			for service, container := range map[string]int32{"notification-controller": 9090, "webhook-receiver": 9292} {
				s := decode[corev1.Service](t, one(t, m, "Service", service))
				i := slices.IndexFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
					return p.Name == s.Spec.Ports[0].TargetPort.StrVal
				})
				if i < 0 || pod.Spec.Containers[0].Ports[i].ContainerPort != container || s.Spec.Ports[0].Port != 80 {
					t.Errorf("service %s: %v", service, s.Spec.Ports)
				}
				if s.Spec.Selector["app"] != "notification-controller" {
					t.Errorf("service %s selects %v", service, s.Spec.Selector)
				}
			}
		})
	}
}

// TestPodIsRestricted fails when a setting is lost that the pod security standard "restricted" asks for, or the read-only root.
func TestPodIsRestricted(t *testing.T) {
	pod := decode[appsv1.Deployment](t, one(t, build(t, "../../config/default"), "Deployment", "notification-controller")).Spec
	if pod.Strategy.Type != appsv1.RecreateDeploymentStrategyType || *pod.Replicas != 1 {
		t.Error("two processes could open one volume")
	}
	spec := pod.Template.Spec
	if *spec.TerminationGracePeriodSeconds <= 10 {
		t.Error("the grace period leaves no room for a drain of 10 s")
	}
	c := spec.Containers[0].SecurityContext
	if !*c.RunAsNonRoot || !*c.ReadOnlyRootFilesystem || *c.AllowPrivilegeEscalation || *c.Privileged ||
		c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		!slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(c.Capabilities.Add) != 0 {
		t.Errorf("security context %v", c)
	}
	if spec.HostNetwork || spec.HostPID || spec.HostIPC || len(spec.InitContainers) != 0 || len(spec.Containers) != 1 {
		t.Error("the pod has more than its one container in a sandbox of its own")
	}
	if !*spec.SecurityContext.RunAsNonRoot || *spec.SecurityContext.RunAsUser == 0 {
		t.Errorf("pod security context %v", spec.SecurityContext)
	}
}

// TestComponentReplacesFluxsOwn fails when something of Flux's notification-controller outlives the component, or another
// controller's does not.
func TestComponentReplacesFluxsOwn(t *testing.T) {
	var left []string
	for _, r := range build(t, "testdata/bootstrap").Resources() {
		if r.GetLabels()["flux"] == "own" {
			left = append(left, r.GetKind()+"/"+r.GetName())
		}
	}
	slices.Sort(left)
	want := []string{
		"CustomResourceDefinition/gitrepositories.source.toolkit.fluxcd.io",
		"Deployment/source-controller", "Service/source-controller", "ServiceAccount/source-controller",
	}
	if !slices.Equal(left, want) {
		t.Errorf("Flux's own that is left: %v, want %v", left, want)
	}
}

// TestEveryKustomizationBuilds fails when a file is named that is not there or does not parse.
func TestEveryKustomizationBuilds(t *testing.T) {
	for _, dir := range []string{"crd", "rbac", "manager", "monitoring", "samples", "samples/admin"} {
		m := build(t, filepath.Join("../../config", dir))
		if m.Size() == 0 {
			t.Errorf("%s is empty", dir)
		}
	}
}

func build(t *testing.T, dir string) resmap.ResMap {
	t.Helper()
	m, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatalf("kustomize build %s: %v", dir, err)
	}
	return m
}

func one(t *testing.T, m resmap.ResMap, kind, name string) *resource.Resource {
	t.Helper()
	i := slices.IndexFunc(m.Resources(), func(r *resource.Resource) bool { return r.GetKind() == kind && r.GetName() == name })
	if i < 0 {
		t.Fatalf("no %s %s", kind, name)
	}
	return m.Resources()[i]
}

// decode is strict: a misspelt field fails here and not silently in the cluster.
func decode[T any](t *testing.T, r *resource.Resource) T {
	t.Helper()
	var out T
	raw, err := r.AsYAML()
	if err == nil {
		err = yaml.UnmarshalStrict(raw, &out)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", r.GetKind(), r.GetName(), err)
	}
	return out
}

// roles returns the Roles and ClusterRoles, a ClusterRole's namespace being empty.
func roles(t *testing.T, m resmap.ResMap) []rbacv1.Role {
	t.Helper()
	var all []rbacv1.Role
	for _, r := range m.Resources() {
		if r.GetKind() == "ClusterRole" || r.GetKind() == "Role" {
			all = append(all, decode[rbacv1.Role](t, r))
		}
	}
	return all
}

// boundRules returns the rules of all roles that the process's account is bound to.
func boundRules(t *testing.T, m resmap.ResMap, namespace string) []rbacv1.PolicyRule {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for _, r := range m.Resources() {
		if r.GetKind() != "ClusterRoleBinding" && r.GetKind() != "RoleBinding" {
			continue
		}
		b := decode[rbacv1.RoleBinding](t, r)
		if !slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool { return s.Name == account && s.Namespace == namespace }) {
			continue
		}
		rules = append(rules, decode[rbacv1.Role](t, one(t, m, b.RoleRef.Kind, b.RoleRef.Name)).Rules...)
	}
	slices.SortFunc(rules, func(a, b rbacv1.PolicyRule) int { return cmp.Compare(a.APIGroups[0], b.APIGroups[0]) })
	return rules
}
