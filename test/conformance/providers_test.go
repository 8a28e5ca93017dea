package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"notifier/test/env"
)

// providerPages returns the pages in docs/providers, by name.
func providerPages(t *testing.T) map[string]docs {
	t.Helper()
	dir, err := env.ProductDir()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "docs", "providers", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]docs{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages[filepath.Base(file)] = parsePage(string(text))
	}
	return pages
}

// manifests returns those of a page.
func (d docs) manifests() []string {
	var all []string
	for _, s := range d {
		for _, b := range s.blocks {
			if b.manifest() {
				all = append(all, b.text)
			}
		}
	}
	return all
}

// Fails when a type of the API is not supported or has no page, or when a manifest of its page is refused or not served.
func TestEveryTypeOfProviderIsServedAsItsPageSays(t *testing.T) {
	pages := providerPages(t)
	s := setUp(t)
	types, err := s.Tenant.ProviderTypes(s.Ctx)
	s.Must(err)
	served := map[string]string{}
	for name, page := range pages {
		for _, manifest := range page.manifests() {
			for _, providerType := range s.applyProviders(manifest) {
				served[providerType] = name
			}
		}
	}
	for _, name := range types {
		if name != unknownType && served[name] == "" {
			t.Errorf("no page in docs/providers has a Provider of type %s", name)
		}
	}
	if len(types) < 34 {
		t.Errorf("the API has %d types: %s", len(types), types)
	}
	t.Logf("%d types of Provider, %d served", len(types), len(served))
	for name := range served {
		if !slices.Contains(types, name) {
			t.Errorf("%s: the API has no type %s", served[name], name)
		}
	}
}

// unknownType is an unsupported type that a test in this cluster may add to the API.
const unknownType = "carrier-pigeon"

// applyProviders applies manifests, waits until the Providers among them are served and returns their types.
func (s *fixture) applyProviders(manifests string) []string {
	s.Helper()
	var providers []*unstructured.Unstructured
	for _, obj := range s.objects(manifests) {
		if obj.GetNamespace() != docsNamespace {
			s.Fatalf("%s %q is in namespace %q, not %q", obj.GetKind(), obj.GetName(), obj.GetNamespace(), docsNamespace)
		}
		text, err := json.Marshal(obj.Object)
		s.Must(err)
		s.Must(s.Tenant.Apply(s.Ctx, strings.ReplaceAll(string(text), fmt.Sprintf(`"namespace":%q`, docsNamespace), `"namespace":"$NS"`)))
		if obj.GetKind() == "Provider" {
			providers = append(providers, obj)
		}
	}
	var types []string
	for _, obj := range providers {
		_, err := s.Tenant.WaitCondition(s.Ctx, "Provider", obj.GetName(), "Serving", metav1.ConditionTrue, "Succeeded")
		s.Must(err)
		types = append(types, field(obj, "spec", "type"))
	}
	return types
}
