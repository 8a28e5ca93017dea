package api_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"

	v1 "notifier/api/v1"
	"notifier/api/v1beta3"
)

// TestSamplesDecodeStrictly fails when a sample names a field that the types do not have, which the API server would drop
// without a word; and when no sample of a kind is left.
func TestSamplesDecodeStrictly(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, v1beta3.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
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
			if meta.APIVersion != v1.GroupVersion.String() && meta.APIVersion != v1beta3.GroupVersion.String() {
				continue
			}
			if _, _, err := decoder.Decode(document, nil, nil); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			seen[meta.Kind]++
		}
	}
	for _, kind := range []string{v1.ReceiverKind, v1beta3.AlertKind, v1beta3.ProviderKind} {
		if seen[kind] == 0 {
			t.Errorf("no sample of kind %s", kind)
		}
	}
}
