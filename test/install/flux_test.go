package install

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"notifier/test/crds"
	"notifier/test/env"
)

// fluxNamespace is the namespace in which config/flux installs.
const fluxNamespace = "flux-system"

// The field managers of the installers: kubectl as the pages use it, flux install, and Flux from Git.
const (
	byKubectl   = "kubectl"
	byFlux      = "flux"
	byKustomize = "kustomize-controller"
)

// cluster is a cluster for the tests that replace our definitions by Flux's and back. They run one after the other.
var cluster = env.Shared(func(ctx context.Context) (*env.System, error) { return env.NewSystem(ctx, true) })

// swap returns the fixture of one of them. At its start flux-system has no part of an installation.
func swap(t *testing.T) *fixture {
	t.Helper()
	w, err := cluster()
	if err != nil {
		t.Fatal(err)
	}
	s := &fixture{env.NewFixture(t, w, nil)}
	s.namespace(fluxNamespace)
	s.deleteDeployment()
	return s
}

// onlyOurs returns by kind the fields of our definitions that Flux's do not have. The API server prunes them under Flux's definitions. Of a
// field whose parts are all missing it has the field.
func onlyOurs(t *testing.T) map[string][]string {
	t.Helper()
	text, err := crds.FluxNotification(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	theirs := schemas(t, text)
	if text, err = manifests("crd"); err != nil {
		t.Fatal(err)
	}
	only := map[string][]string{}
	for kind, ours := range schemas(t, text) {
		only[kind] = missing("", ours, theirs[kind])
	}
	return only
}

// schemas returns by kind the schemas of the first version of definitions. All versions have the same fields.
func schemas(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	definitions, err := env.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]any{}
	for _, d := range definitions {
		kind, _, err := unstructured.NestedString(d.Object, "spec", "names", "kind")
		if err != nil {
			t.Fatal(err)
		}
		versions, _, err := unstructured.NestedSlice(d.Object, "spec", "versions")
		if err != nil || len(versions) == 0 {
			t.Fatalf("the definition of %s has %d versions (%v)", kind, len(versions), err)
		}
		version, _ := versions[0].(map[string]any)
		if all[kind], _, err = unstructured.NestedMap(version, "schema", "openAPIV3Schema"); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// missing returns the paths below path of the properties that a schema has and another one lacks.
func missing(path string, of, in map[string]any) (paths []string) {
	if items, ok := of["items"].(map[string]any); ok {
		other, _ := in["items"].(map[string]any)
		return missing(path+"[]", items, other)
	}
	properties, _ := of["properties"].(map[string]any)
	others, _ := in["properties"].(map[string]any)
	for name, property := range properties {
		at := strings.TrimPrefix(path+"."+name, ".")
		other, known := others[name].(map[string]any)
		if !known {
			paths = append(paths, at)
			continue
		}
		schema, _ := property.(map[string]any)
		paths = append(paths, missing(at, schema, other)...)
	}
	return paths
}

// fluxInstall returns the manifests that flux install applies, its definitions first.
func (s *fixture) fluxInstall() string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "flux-install.yaml"))
	s.Must(err)
	return s.fluxDefinitions() + "---\n" + string(text)
}

// fluxDefinitions returns Flux's custom resource definitions with the labels that flux install gives them.
func (s *fixture) fluxDefinitions() string {
	s.Helper()
	text, err := crds.FluxNotification(s.Ctx)
	s.Must(err)
	definitions, err := env.Decode(text)
	s.Must(err)
	var all []string
	for _, d := range definitions {
		d.SetLabels(map[string]string{
			"app.kubernetes.io/component": "notification-controller", "app.kubernetes.io/instance": fluxNamespace,
			"app.kubernetes.io/part-of": "flux", "app.kubernetes.io/version": "v2.8.0",
		})
		text, err := yaml.Marshal(d.Object)
		s.Must(err)
		all = append(all, string(text))
	}
	return strings.Join(all, "---\n")
}

// Fails when the patches for the Flux Operator leave something in place that the component for Flux from Git takes out, or take out more.
func TestTheFluxOperatorLeavesOutWhatTheComponentDoes(t *testing.T) {
	s := setUp(t)
	root, err := env.ProductDir()
	s.Must(err)
	text, err := os.ReadFile(filepath.Join(root, "config", "flux", "operator.yaml"))
	s.Must(err)
	var instance struct {
		Spec struct{ Kustomize map[string]any }
	}
	s.Must(yaml.Unmarshal(text, &instance))
	patches, err := yaml.Marshal(instance.Spec.Kustomize)
	s.Must(err)
	left := func(manifests string) []string { return slices.Sorted(maps.Keys(s.identities(manifests))) }
	all, got := left(s.fluxInstall()), left(s.fluxFromGit(string(patches)))
	if diff := cmp.Diff(left(s.fluxFromGit("", "flux/component/remove")), got); diff != "" || len(got) == len(all) {
		t.Errorf("of %d objects %d are left (-with the component, +with the patches):\n%s", len(all), len(got), diff)
	}
}

// fluxFromGit returns the manifests that Flux builds from its Git repository: the kustomization.yaml beside the output
// of flux bootstrap, with components of ours and the rest of the file.
func (s *fixture) fluxFromGit(rest string, components ...string) string {
	s.Helper()
	dir := s.TempDir()
	root, err := env.ProductDir()
	s.Must(err)
	s.Must(os.WriteFile(filepath.Join(dir, "gotk-components.yaml"), []byte(s.fluxInstall()), 0o600))
	k := map[string][]string{"resources": {"gotk-components.yaml"}}
	for _, c := range components {
		path, err := filepath.Rel(dir, filepath.Join(root, "config", c))
		s.Must(err)
		k["components"] = append(k["components"], path)
	}
	text, err := yaml.Marshal(k)
	s.Must(err)
	s.Must(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), append(text, rest...), 0o600))
	m, err := env.Kustomize(dir)
	s.Must(err)
	all, err := m.AsYaml()
	s.Must(err)
	return string(all)
}
