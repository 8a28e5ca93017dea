package install

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"notifier/test/env"
)

// pages returns the pages for people, by their paths from the root of the repository, and that root.
func pages(t *testing.T) (root string, all map[string]string) {
	t.Helper()
	root, err := env.ProductDir()
	if err != nil {
		t.Fatal(err)
	}
	all = map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "config/*/README.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			all[name] = string(text)
		}
	}
	return root, all
}

var (
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInID    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	fenced     = regexp.MustCompile("(?s)```.*?```")
	fieldsRow  = regexp.MustCompile("(?m)^\\| (\\w+) \\| (`.*`) \\|$")
)

// anchors returns the names by which links refer to the headings of a page.
func anchors(page string) []string {
	var ids []string
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		ids = append(ids, strings.ReplaceAll(notInID.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return ids
}

// Fails when a page links to a missing file or heading.
func TestEveryLinkInThePagesLeadsSomewhere(t *testing.T) {
	root, all := pages(t)
	links := 0
	for name, page := range all {
		for _, m := range linkTarget.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = filepath.Join(filepath.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: %s leads nowhere", name, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(all[target]), anchor) {
				t.Errorf("%s: %s has no heading #%s", name, target, anchor)
			}
		}
	}
	if links < 30 {
		t.Errorf("only %d links were found", links)
	}
}

// Fails when the page about the swap does not list a field that Flux's definitions prune, or lists one that they keep.
// Fails also when it, or README, names a kustomization, a flag or a metric that does not exist.
func TestThePageAboutTheSwapNamesWhatIsThere(t *testing.T) {
	root, all := pages(t)
	page := all[filepath.Join("docs", "flux.md")]
	_, fields, _ := strings.Cut(page, "\n### Fields\n")
	fields, _, _ = strings.Cut(fields, "\n## ")
	want := onlyOurs(t)
	for _, row := range fieldsRow.FindAllStringSubmatch(fields, -1) {
		listed := strings.Split(strings.Trim(row[2], "`"), "`, `")
		slices.Sort(listed)
		slices.Sort(want[row[1]])
		if !slices.Equal(listed, want[row[1]]) {
			t.Errorf("of %s the page lists %q, and Flux's definitions lack %q", row[1], listed, want[row[1]])
		}
		delete(want, row[1])
	}
	if len(want) != 0 {
		t.Errorf("the page does not list %q", want)
	}
	for _, m := range regexp.MustCompile(`-k (config/[\w/-]+)`).FindAllStringSubmatch(page+all["README.md"], -1) {
		if _, err := os.Stat(filepath.Join(root, m[1], "kustomization.yaml")); err != nil {
			t.Errorf("%s is no kustomization", m[1])
		}
	}
	operations := all[filepath.Join("docs", "operations.md")]
	for _, metric := range regexp.MustCompile(`\b(notifier|gotk_event|rest_client)_[a-z_]+`).FindAllString(page, -1) {
		if !strings.Contains(operations, "`"+metric+"`") && !strings.Contains(operations, "`"+metric+"{") {
			t.Errorf("%s is no metric that docs/operations.md knows", metric)
		}
	}
}

// Fails when a part of an installation, other than the definitions, would stay after the commands that remove it.
func TestTheCommandsThatRemoveTheInstallationNameAllOfIt(t *testing.T) {
	_, all := pages(t)
	_, commands, _ := strings.Cut(all[filepath.Join("docs", "operations.md")], "$ kubectl delete namespace notification-system\n")
	commands, _, _ = strings.Cut(commands, "```")
	for _, name := range []string{"default", "legacy-impersonation", "workload-identity"} {
		m, err := env.Manifests(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range m.Resources() {
			kind := strings.ToLower(r.GetKind())
			if r.GetNamespace() != "" || kind == "namespace" || kind == "customresourcedefinition" {
				continue
			}
			if !slices.ContainsFunc(strings.Split(commands, "\n"), func(line string) bool {
				kinds, names, _ := strings.Cut(strings.TrimPrefix(line, "$ kubectl delete "), " ")
				return slices.Contains(strings.Split(kinds, ","), kind) && slices.Contains(strings.Fields(names), r.GetName())
			}) {
				t.Errorf("the %s %s of config/%s stays", kind, r.GetName(), name)
			}
		}
	}
}

// The first steps of a newcomer, in order. Fails when a manifest of README's quick start is not ready as written, and
// when it leads to no message or no reconcile.
func TestTheQuickStartOfREADMEWorks(t *testing.T) {
	s := setUp(t)
	n := s.process()
	s.Notifier = n
	_, all := pages(t)
	_, quick, _ := strings.Cut(all["README.md"], "\n## Quick start\n")
	quick, _, _ = strings.Cut(quick, "\n## ")
	sink := s.NewSink()
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", "app", nil, ""))
	blocks := fence.FindAllStringSubmatch(quick, -1)
	if len(blocks) != 2 {
		t.Fatalf("got %d manifests", len(blocks))
	}
	s.Must(s.System.Revoke(s.Ctx, s.Tenant.Namespace, "default")) // the account of the page must suffice
	for _, block := range blocks {
		text := strings.ReplaceAll(block[1], "namespace: team-a", "namespace: "+s.Tenant.Namespace)
		_, err := s.System.Apply(s.Ctx, strings.ReplaceAll(text, "https://hooks.slack.com/services/replace/me", sink.URL("/")))
		s.Must(err)
	}
	for kind, name := range map[string]string{"Provider": "slack", "Alert": "app", "Receiver": "app"} {
		s.Condition(s.Tenant, kind, name, "Ready", metav1.ConditionTrue, "")
	}
	event, err := s.Tenant.Event(s.Ctx, "Kustomization", "app", "info", "ReconciliationSucceeded", "applied", "main@sha1:1")
	s.Must(err)
	_, err = n.Post(s.Ctx, event)
	s.Must(err)
	_, err = sink.Wait(s.Ctx, func(all []env.Received) bool { return len(all) > 0 })
	s.Must(err)

	path := s.Path(s.Tenant, "app")
	sent := time.Now()
	s.Push(path, "replace-with-a-long-random-value", http.StatusOK)
	s.Requested(s.Tenant, "GitRepository", "app", sent)
}

// Fails when the page's first symptom, its reason to check stored versions before, does not occur.
func TestADefinitionThatStoredAnOlderVersionIsRefused(t *testing.T) {
	s := swap(t)
	ours, err := manifests("crd")
	s.Must(err)
	s.as(byKubectl, ours)
	s.stored(`["v1beta2","v1beta3"]`)
	defer s.stored(`["v1beta3"]`)
	_, err = s.System.ApplyAs(s.Ctx, byKubectl, ours)
	if err == nil {
		err = errors.New("taken")
	}
	if want := "status.storedVersions[0]: Invalid value"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Fails when our definitions cannot follow those of Flux 2.10, which stores version v1.
func TestDefinitionsOfAReleaseThatStoresV1AreTakenOver(t *testing.T) {
	s := swap(t)
	ours, err := manifests("crd")
	s.Must(err)
	s.as(byKubectl, ours)
	s.stored(`["v1beta3","v1"]`)
	defer s.stored(`["v1beta3"]`)
	s.as(byKubectl, ours)
}

// stored sets the stored versions in the status of the definition of Alerts.
func (s *fixture) stored(versions string) {
	s.Helper()
	definitions := s.System.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	patch := `{"status":{"storedVersions":` + versions + `}}`
	_, err := definitions.Patch(s.Ctx, "alerts.notification.toolkit.fluxcd.io", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	s.Must(err)
}
