// Package install tests the shipped manifests: config/default on a real API server, the process's rights there as its
// own service account, and that every manifest in the documentation applies.
package install

import (
	"context"
	"strings"
	"testing"

	"notifier/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

// shared is a cluster with all of config/default, the Deployment and its volume claim included: without a scheduler they
// stay unchanged.
var shared = env.Shared(func(ctx context.Context) (*env.System, error) {
	w, err := env.NewSystem(ctx, true)
	if err != nil {
		return nil, err
	}
	all, err := manifests("default")
	if err != nil {
		return nil, err
	}
	_, err = w.Apply(ctx, all)
	return w, err
})

// manifests builds a kustomization under config/ into one YAML stream.
func manifests(name string) (string, error) {
	m, err := env.Manifests(name)
	if err != nil {
		return "", err
	}
	text, err := m.AsYaml()
	return string(text), err
}

// fixture is the start of one test.
type fixture struct{ *env.Fixture }

func setUp(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	w, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{env.NewFixture(t, w, nil)}
}

// documents splits a YAML stream.
func documents(text string) []string {
	var docs []string
	for d := range strings.SplitSeq("\n"+text, "\n---") {
		if strings.TrimSpace(d) != "" {
			docs = append(docs, d)
		}
	}
	return docs
}
