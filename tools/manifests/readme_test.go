package manifests_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

var kustomizationShown = regexp.MustCompile("(?s)```yaml\n(apiVersion: kustomize.config.k8s.io/.*?)```")

// TestTheKustomizationsOfThePageBuild fails when one that config/flux/README.md shows does not build as written, or leads to another image,
// flag or port than it says.
func TestTheKustomizationsOfThePageBuild(t *testing.T) {
	page, err := os.ReadFile("../../config/flux/README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := kustomizationShown.FindAllStringSubmatch(string(page), -1)
	if len(shown) != 2 {
		t.Fatalf("the page shows %d kustomizations", len(shown))
	}
	bootstrapped := builtAt(t, strings.ReplaceAll(shown[0][1], "# - ", "- "))
	if got := bootstrapped.Image; got != "registry.example.com/notifier:v1" {
		t.Errorf("the image is %s", got)
	}
	installed := builtAt(t, shown[1][1])
	for _, flag := range []string{"--destinations-use-environment-proxy", "--api-addr=:9393"} {
		if !slices.Contains(installed.Args, flag) {
			t.Errorf("%s is not among %q", flag, installed.Args)
		}
	}
}

// builtAt builds a kustomization beside what Flux's bootstrap writes, and returns the process's container.
func builtAt(t *testing.T, text string) corev1.Container {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err == nil {
		root, err = filepath.Rel(dir, root)
	}
	if err != nil {
		t.Fatal(err)
	}
	flux, err := os.ReadFile("testdata/bootstrap/gotk-components.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"gotk-components.yaml": string(flux),
		"gotk-sync.yaml":       "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sync, namespace: flux-system}\n",
		"kustomization.yaml":   regexp.MustCompile(`<[^>]*>`).ReplaceAllString(text, root),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return decode[appsv1.Deployment](t, one(t, build(t, dir), "Deployment", "notification-controller")).Spec.Template.Spec.Containers[0]
}
