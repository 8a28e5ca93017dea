package install

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// kustomizations returns the directories under config/ that have one, "default" for instance, except those of kind
// Component, which are parts of others.
func (s *fixture) kustomizations() []string {
	s.Helper()
	root, err := env.ProductDir()
	s.Must(err)
	root = filepath.Join(root, "config")
	var names []string
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "kustomization.yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(text), "kind: Component") {
			var name string
			name, err = filepath.Rel(root, filepath.Dir(path))
			names = append(names, name)
		}
		return err
	})
	s.Must(err)
	return names
}

// Every kustomization under config/ builds, and the API server accepts the result. Fails when a path, a patch or a field
// is wrong.
func TestEveryKustomizationBuildsAndApplies(t *testing.T) {
	s := setUp(t)
	for _, namespace := range []string{"flux-system", "team-a"} {
		s.namespace(namespace)
	}
	names := s.kustomizations()
	if len(names) < 5 {
		t.Fatalf("found only %v", names)
	}
	for _, name := range names {
		text, err := manifests(name)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, doc := range documents(text) {
			if strings.Contains(doc, "monitoring.coreos.com") {
				continue // the Prometheus operator's own definitions are not here
			}
			if _, err := s.System.DryRun(s.Ctx, doc); err != nil {
				t.Errorf("config/%s: %v", name, err)
			}
		}
	}
}

// namespace makes a namespace; an existing one is no error.
func (s *fixture) namespace(name string) {
	s.Helper()
	_, err := s.System.Client.CoreV1().Namespaces().Create(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		s.Must(err)
	}
}

var fence = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// Users copy the manifests of a page. Fails when a field in an example is misspelt or of another type.
func TestEveryManifestInThePagesApplies(t *testing.T) {
	s := setUp(t)
	root, err := env.ProductDir()
	s.Must(err)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	s.Must(err)
	s.namespace("team-a")
	shown := 0
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "config", "flux", "README.md")) {
		text, err := os.ReadFile(page)
		s.Must(err)
		for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
			for _, doc := range documents(block[1]) {
				if !strings.Contains(doc, "apiVersion:") || strings.Contains(doc, "kustomize.config.k8s.io") {
					continue
				}
				shown++
				if _, err := s.System.DryRun(s.Ctx, doc); err != nil {
					t.Errorf("%s: %v in\n%s", filepath.Base(page), err, doc)
				}
			}
		}
	}
	if shown < 3 {
		t.Errorf("only %d manifests were found in the pages", shown)
	}
}

// The samples are not only accepted: with a notifier they are ready, except the one whose certificate is a placeholder.
// Fails when a sample lacks a field that its type needs.
func TestTheSamplesWork(t *testing.T) {
	s := setUp(t)
	s.namespace("team-a")
	text, err := manifests("samples")
	s.Must(err)
	_, err = s.System.Apply(s.Ctx, text)
	s.Must(err)
	s.process()
	tenant := &env.Tenant{System: s.System, Namespace: "team-a"}
	objects, err := env.Decode(text)
	s.Must(err)
	for _, obj := range objects {
		if obj.GroupVersionKind().Group != env.Kinds["Alert"].Group {
			continue
		}
		if obj.GetName() == "recorder" {
			_, err = tenant.WaitCondition(s.Ctx, obj.GetKind(), "recorder", env.Outcome(obj.GetKind()), metav1.ConditionFalse, "")
		} else {
			_, err = tenant.WaitCondition(s.Ctx, obj.GetKind(), obj.GetName(), env.Outcome(obj.GetKind()), metav1.ConditionTrue, "")
		}
		if err != nil {
			t.Errorf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}
}
