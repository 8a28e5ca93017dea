package api_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"

	v1 "notifier/api/v1"
)

// TestSamplesDecodeStrictly fails when a sample names a field that the types do not have, which the API server would drop
// without a word; and when no sample of a kind is left.
func TestSamplesDecodeStrictly(t *testing.T) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(v1.GroupVersion, &v1.Alert{}, &v1.Provider{}, &v1.Receiver{})
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	files, err := filepath.Glob(filepath.Join("..", "config", "samples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	seen := map[string]int{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(raw, []byte("\n---\n")) {
			var meta struct{ APIVersion, Kind string }
			if err := yaml.Unmarshal(document, &meta); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if meta.APIVersion != v1.GroupVersion.String() {
				continue
			}
			if _, _, err := decoder.Decode(document, nil, nil); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			seen[meta.Kind]++
		}
	}
	for _, kind := range []string{v1.ReceiverKind, v1.AlertKind, v1.ProviderKind} {
		if seen[kind] == 0 {
			t.Errorf("no sample of kind %s", kind)
		}
	}
}

// TestTheSampleRoleIsForAllThatTheProcessMayWrite fails when the Role that the pages name lacks a kind of Flux: a Receiver that names one is
// denied each write, although its owner applied the Role.
func TestTheSampleRoleIsForAllThatTheProcessMayWrite(t *testing.T) {
	may := patchable(t, filepath.Join("..", "config", "rbac", "role.yaml"), "impersonate-on:serviceaccount:patch")
	if len(may) == 0 {
		t.Fatal("the process may write nothing")
	}
	if diff := cmp.Diff(may, patchable(t, filepath.Join("..", "config", "samples", "tenant_rbac.yaml"), "patch")); diff != "" {
		t.Errorf("kinds (-that the process may write +of the sample):\n%s", diff)
	}
}

// patchable returns the resources, by their group, for which the roles of a file have a verb, but for the group of the three kinds.
func patchable(t *testing.T, file, verb string) map[string][]string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for document := range bytes.SplitSeq(raw, []byte("\n---\n")) {
		var role struct {
			Rules []struct{ APIGroups, Resources, Verbs []string }
		}
		if err := yaml.Unmarshal(document, &role); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, rule := range role.Rules {
			if group := rule.APIGroups[0]; slices.Contains(rule.Verbs, verb) && group != v1.GroupVersion.Group && group != "" {
				found[group] = append(found[group], rule.Resources...)
			}
		}
	}
	return found
}
