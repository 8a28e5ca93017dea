package install

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"notifier/test/env"
)

const deploymentName = "notification-controller"

func (s *fixture) deleteDeployment() {
	s.Helper()
	err := s.System.Client.AppsV1().Deployments(fluxNamespace).Delete(s.Ctx, deploymentName, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		s.Must(err)
	}
}

// as applies manifests with the field manager of an installer.
func (s *fixture) as(manager, manifests string) {
	s.Helper()
	_, err := s.System.ApplyAs(s.Ctx, manager, manifests)
	s.Must(err)
}

// sound reads the Deployment, checks that it can run, and returns it. It checks for fields that Kubernetes would refuse
// in it, or in its Pods, and for mixtures of two installers' fields.
func (s *fixture) sound() *appsv1.Deployment {
	s.Helper()
	d, err := s.System.Client.AppsV1().Deployments(fluxNamespace).Get(s.Ctx, deploymentName, metav1.GetOptions{})
	s.Must(err)
	if got := d.Spec.Selector.MatchLabels; len(got) != 1 || got["app"] != deploymentName {
		s.Errorf("the selector is %v", got)
	}
	if (d.Spec.Strategy.RollingUpdate != nil) != (d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType) {
		s.Errorf("the strategy is %+v", d.Spec.Strategy)
	}
	spec := d.Spec.Template.Spec
	if len(spec.Containers) != 1 {
		s.Fatalf("got %d containers", len(spec.Containers))
	}
	seen := map[string]bool{}
	for _, e := range spec.Containers[0].Env {
		if seen[e.Name] || (e.Value == "") == (e.ValueFrom == nil) {
			s.Errorf("environment variable %s: value %q, valueFrom %v", e.Name, e.Value, e.ValueFrom)
		}
		seen[e.Name] = true
		if e.Name == "GOMEMLIMIT" && (e.ValueFrom == nil || e.ValueFrom.ResourceFieldRef.Resource != "limits.memory") {
			s.Errorf("GOMEMLIMIT is from %v", e.ValueFrom)
		}
	}
	if !seen["GOMEMLIMIT"] || !seen["RUNTIME_NAMESPACE"] {
		s.Errorf("the environment is %v", seen)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Labels: d.Spec.Template.Labels}, Spec: spec}
	_, err = s.System.Client.CoreV1().Pods(fluxNamespace).Create(s.Ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	s.Must(err)
	return d
}

// runsFluxs checks that the Deployment starts Flux's controller, as Flux's account and with Flux's command line.
func (s *fixture) runsFluxs() *appsv1.Deployment {
	s.Helper()
	d := s.sound()
	spec := d.Spec.Template.Spec
	c := spec.Containers[0]
	if !strings.HasPrefix(c.Image, "ghcr.io/fluxcd/") || spec.ServiceAccountName != deploymentName || len(c.Command) > 0 || c.Args[0] == "serve" ||
		slices.ContainsFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, "--data-dir") }) {
		s.Errorf("half of it is Flux's: image %s, account %s, %v %v", c.Image, spec.ServiceAccountName, c.Command, c.Args)
	}
	return d
}

// runsOurs checks that the Deployment starts the notifier, as its own account, on its volume, and that no two of its
// Pods run at once.
func (s *fixture) runsOurs() {
	s.Helper()
	d := s.sound()
	spec := d.Spec.Template.Spec
	c := spec.Containers[0]
	if !strings.HasPrefix(c.Image, "notifier:") || spec.ServiceAccountName != "notifier" || c.Args[0] != "serve" {
		s.Errorf("half of it is Flux's: image %s, account %s, %v", c.Image, spec.ServiceAccountName, c.Args)
	}
	if r := d.Spec.Strategy.RollingUpdate; r == nil || r.MaxSurge.IntValue() != 0 || r.MaxUnavailable.IntValue() != 1 {
		s.Errorf("two processes would run beside each other: %+v", d.Spec.Strategy)
	}
	if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil }) {
		s.Error("the data are not on a volume claim")
	}
}

// Fails when Flux's Deployment and ours have a field in two forms, such as GOMEMLIMIT once by value and once by
// valueFrom: flux install and flux bootstrap would stop in the middle, with Flux's definitions and our process.
func TestFluxInstallOverOursIsFluxs(t *testing.T) {
	s := swap(t)
	ours, err := manifests("flux")
	s.Must(err)
	s.as(byKubectl, ours)
	s.runsOurs()
	s.as(byFlux, s.fluxInstall())
	s.runsFluxs()
}

// Fails when our Deployment cannot be applied over Flux's: one that recreates cannot be applied over one that rolls.
func TestOursOverFluxInstallIsOurs(t *testing.T) {
	s := swap(t)
	s.as(byFlux, s.fluxInstall())
	s.runsFluxs()
	ours, err := manifests("flux")
	s.Must(err)
	s.as(byKubectl, ours)
	s.runsOurs()
	s.as(byFlux, s.fluxInstall())
	s.runsFluxs()
	s.as(byKubectl, ours)
	s.runsOurs()
}

// Fails when the component does not remove Flux's own objects, or when Flux cannot apply the result over its own. Fails
// also when Flux, once the component is removed again, prunes more than ours: a definition, with which every Alert would
// be deleted, or the volume.
func TestByGitThereAndBack(t *testing.T) {
	s := swap(t)
	s.as(byKustomize, s.fluxFromGit(""))
	s.runsFluxs()
	there := s.fluxFromGit("", "flux/component")
	s.as(byKustomize, there)
	s.runsOurs()
	back := s.fluxFromGit("")
	s.as(byKustomize, back)
	d := s.runsFluxs()
	if len(d.Spec.Template.Spec.Volumes) != 1 || d.Spec.Template.Spec.Containers[0].StartupProbe != nil {
		t.Errorf("something of ours is left: %+v", d)
	}
	stays := s.identities(back)
	for id, obj := range s.identities(there) {
		if _, ok := stays[id]; ok {
			continue
		}
		switch {
		case obj.GetKind() == "CustomResourceDefinition":
			t.Errorf("%s would be pruned, and with it all objects", id)
		case obj.GetKind() == "PersistentVolumeClaim" && obj.GetAnnotations()["kustomize.toolkit.fluxcd.io/prune"] != "disabled":
			t.Errorf("%s would be pruned, and with it what waits", id)
		case obj.GetLabels()["app.kubernetes.io/name"] != "notifier":
			t.Errorf("%s would be pruned and is not ours", id)
		}
	}
}

// identities returns the objects of manifests by their identity.
func (s *fixture) identities(manifests string) map[string]*unstructured.Unstructured {
	s.Helper()
	objects, err := env.Decode(manifests)
	s.Must(err)
	all := map[string]*unstructured.Unstructured{}
	for _, obj := range objects {
		id, err := json.Marshal([]string{obj.GroupVersionKind().Group, obj.GetKind(), obj.GetNamespace(), obj.GetName()})
		s.Must(err)
		all[string(id)] = obj
	}
	return all
}
