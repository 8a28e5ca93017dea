package install

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

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

// onlyOurs are the fields of our definitions that Flux's do not have, in the order of docs/flux.md. The API server
// prunes them under Flux's definitions.
var onlyOurs = map[string][]string{
	"Receiver": {
		"spec.serviceAccountName", "spec.rateLimit", "spec.eventSources", "spec.resources[].matchExpressions", "status.deliveries",
	},
	"Alert":    {"status"},
	"Provider": {"spec.rateLimit", "spec.jetstream", "status"},
}

// fluxTypes are the types of Receivers that Flux's definition lists.
var fluxTypes = []any{
	"generic", "generic-hmac", "generic-oidc", "github", "gitlab", "bitbucket", "harbor", "dockerhub", "quay", "gcr", "nexus", "acr", "cdevents",
}

// fluxInstall returns the manifests that flux install applies, its definitions first.
func (s *fixture) fluxInstall() string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "flux-install.yaml"))
	s.Must(err)
	return s.fluxDefinitions() + "---\n" + string(text)
}

// fluxDefinitions returns Flux's custom resource definitions: ours, without our own fields and with Flux's labels.
func (s *fixture) fluxDefinitions() string {
	s.Helper()
	ours, err := manifests("crd")
	s.Must(err)
	definitions, err := env.Decode(ours)
	s.Must(err)
	var all []string
	for _, d := range definitions {
		d.SetLabels(map[string]string{
			"app.kubernetes.io/component": "notification-controller", "app.kubernetes.io/instance": fluxNamespace,
			"app.kubernetes.io/part-of": "flux", "app.kubernetes.io/version": "v2.8.0",
		})
		versions, _, err := unstructured.NestedSlice(d.Object, "spec", "versions")
		s.Must(err)
		kind, _, err := unstructured.NestedString(d.Object, "spec", "names", "kind")
		s.Must(err)
		version := versions[0].(map[string]any)
		schema := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		for _, field := range onlyOurs[kind] {
			s.prune(schema, field)
		}
		if kind != "Receiver" {
			version["subresources"] = map[string]any{}
		} else {
			s.Must(unstructured.SetNestedSlice(schema, fluxTypes, "properties", "spec", "properties", "type", "enum"))
			unstructured.RemoveNestedField(schema, "properties", "spec", "x-kubernetes-validations") // they are about pruned fields
		}
		s.Must(unstructured.SetNestedSlice(d.Object, versions, "spec", "versions"))
		text, err := yaml.Marshal(d.Object)
		s.Must(err)
		all = append(all, string(text))
	}
	return strings.Join(all, "---\n")
}

// prune removes a field from a schema, and fails the test if it is missing.
func (s *fixture) prune(schema map[string]any, field string) {
	s.Helper()
	path := strings.Split(field, ".")
	for i, name := range path {
		name, list := strings.CutSuffix(name, "[]")
		properties, ok := schema["properties"].(map[string]any)
		if !ok || properties[name] == nil {
			s.Fatalf("our definition has no field %s", field)
		}
		if i == len(path)-1 {
			delete(properties, name)
			return
		}
		schema = properties[name].(map[string]any)
		if list {
			schema = schema["items"].(map[string]any)
		}
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
