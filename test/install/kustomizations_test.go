package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"notifier/test/crds"
	"notifier/test/env"
)

// checkout are the words by which the pages name the place of the repository in a kustomization.
var checkout = []string{"<a checkout or URL of this repository>", "<the same>"}

// Users copy the kustomizations of a page. Fails when one does not build, or when a Deployment with an external NATS keeps the volume, which
// one Pod alone can have, or ends all its Pods at an upgrade.
func TestEveryKustomizationInThePagesBuilds(t *testing.T) {
	root, all := pages(t)
	external := 0
	for name, page := range all {
		for _, block := range fence.FindAllStringSubmatch(page, -1) {
			if !strings.Contains(block[1], "kustomize.config.k8s.io") {
				continue
			}
			built := build(t, root, block[1])
			switch {
			case !strings.Contains(built, "kind: Deployment"):
				t.Errorf("%s: no Deployment is in\n%s", name, block[1])
			case strings.Contains(block[1], "--nats-url="):
				external++
				severalRun(t, built)
			}
		}
	}
	if external == 0 {
		t.Error("no page has a kustomization with an external NATS")
	}
}

// build returns the manifests of a kustomization of a page, beside the files of flux bootstrap.
func build(t *testing.T, root, kustomization string) string {
	t.Helper()
	dir := t.TempDir()
	place, err := filepath.Rel(dir, root)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range checkout {
		kustomization = strings.ReplaceAll(kustomization, words, place)
	}
	install, err := os.ReadFile(filepath.Join("testdata", "flux-install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := crds.FluxNotification(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"kustomization.yaml":   kustomization,
		"gotk-components.yaml": definitions + "---\n" + string(install),
		"gotk-sync.yaml":       "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sync, namespace: flux-system}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	built, err := env.Kustomize(dir)
	if err != nil {
		t.Fatalf("%v in\n%s", err, kustomization)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// severalRun checks that several Pods of the Deployment in manifests can run at once.
func severalRun(t *testing.T, manifests string) {
	t.Helper()
	if strings.Contains(manifests, "kind: PersistentVolumeClaim") {
		t.Error("the claim is still there")
	}
	for _, doc := range documents(manifests) {
		if !strings.Contains(doc, "kind: Deployment") {
			continue
		}
		var object map[string]any
		if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
			t.Fatal(err)
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &d); err != nil {
			t.Fatal(err)
		}
		if d.Name != deploymentName {
			continue
		}
		if *d.Spec.Replicas < 2 || d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
			t.Errorf("%d replicas with the strategy %+v", *d.Spec.Replicas, d.Spec.Strategy)
		}
		if slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil }) {
			t.Errorf("the volumes are %+v", d.Spec.Template.Spec.Volumes)
		}
	}
}
