// Package install tests what is shipped: config/default on a real API server, what the process may do there as its own service
// account, and that every manifest that is shown to a user applies.
package install

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/test/harness"
	"notifier/test/world"
)

func TestMain(m *testing.M) { harness.Main(m) }

const (
	// openTimeout bounds building and starting the control plane the first time, testTimeout each test after that.
	openTimeout = 20 * time.Minute
	testTimeout = 2 * time.Minute
)

// shared is a cluster with all of config/default, the Deployment and its volume claim included: nobody schedules here, so they stay
// what they are.
var shared = sync.OnceValues(func() (*world.World, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	w, err := world.New(ctx, true)
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
	m, err := world.Manifests(name)
	if err != nil {
		return "", err
	}
	text, err := m.AsYaml()
	return string(text), err
}

// stage is what a test plays on.
type stage struct {
	*testing.T
	*world.World
	ctx context.Context
}

func open(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	w, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return &stage{T: t, World: w, ctx: ctx}
}

// must ends the test on an error.
func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) tenant() *world.Tenant {
	s.Helper()
	t, err := s.Tenant(s.ctx, "tenant-")
	s.must(err)
	return t
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
