package e2e

import (
	"bufio"
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"notifier/test/env"
)

// shell runs command lines as a tenant's user types them.
type shell struct {
	*env.Fixture
	env []string
}

// buildKubectl builds the kubectl that test/kubectl pins, which takes minutes the first time.
func buildKubectl(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), env.OpenTimeout)
	defer cancel()
	path, err := env.BuildPinned(ctx, "kubectl", "notifier/test/kubectl")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Fails when the kubectl that runs the lines of the documentation is not built from a release of Kubernetes.
func TestTheKubectlIsARelease(t *testing.T) {
	info, err := buildinfo.ReadFile(buildKubectl(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		if m.Path == "k8s.io/kubectl" && strings.HasPrefix(m.Version, "v0.36.") && m.Sum != "" && m.Replace == nil {
			return
		}
	}
	t.Error("kubectl is built without a release of k8s.io/kubectl")
}

// newShell returns the shell of a service account of the tenant with the rights of the product's roles for owners.
func newShell(s *env.Fixture, kubectl string) *shell {
	namespace := s.Tenant.Namespace
	_, err := s.System.Owner(s.Ctx, namespace, namespace)
	s.Must(err)
	dir := s.T.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	s.Must(s.System.KubeconfigAs(s.Ctx, namespace, env.OwnerAccount, kubeconfig))
	for name, program := range map[string]string{"notifier": s.System.Program, "kubectl-notifier": s.System.Program, "kubectl": kubectl} {
		s.Must(os.Symlink(program, filepath.Join(dir, name)))
	}
	return &shell{s, []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "KUBECONFIG=" + kubeconfig, "NOTIFIER_SERVER=" + s.Notifier.APIURL, "HOME=" + dir}}
}

// try runs a line and returns its output.
func (s *shell) try(line string, variables ...string) (out string, err error) {
	ctx, cancel := context.WithTimeout(s.Ctx, 30*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-ec", line)
	c.Env = append(append([]string{}, s.env...), variables...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s", line, err, stderr.String())
	}
	return stdout.String(), nil
}

func (s *shell) run(line string, variables ...string) string {
	s.T.Helper()
	out, err := s.try(line, variables...)
	s.Must(err)
	return out
}

// ids returns the IDs of a list's items.
func (s *shell) ids(line string) []string {
	s.T.Helper()
	var page struct{ Items []struct{ ID string } }
	s.Must(json.Unmarshal([]byte(s.run(line+" -o json -n "+s.Tenant.Namespace)), &page))
	var ids []string
	for _, item := range page.Items {
		ids = append(ids, item.ID)
	}
	return ids
}

var (
	// shellBlock is a block of shell lines, shellLine one of them, and assignment a line that sets a variable for later
	// ones.
	shellBlock = regexp.MustCompile("(?s)```console\n(.*?)```")
	shellLine  = regexp.MustCompile(`(?m)^\$ (.*)$`)
	assignment = regexp.MustCompile(`^([A-Z]+)=\$\(`)
)

// outcomes are the texts in the output of lines with some text, at once or in a moment.
var outcomes = []struct{ line, has string }{
	{" deliveries show", "HTTP 410"},
	{" explain", "yes"},
	{" webhooks list", "accepted"},
	{" providers test", "accepted the test message"},
	{"notifier ui", "#token="},
	{"state=dead&since", `"state":"dead"`},
	{"watch=1", "event: item"},
	{"get providers,alerts", "provider"},
	{".status.recent", "["},
	{".status.lastFailure", "410"},
	{" annotate", " annotated"},
	{" events --for", "TestSent"},
}

// line runs one line of the page until its output is as expected. A line that watches is ended then.
func (s *shell) line(line string, variables []string) {
	s.T.Helper()
	has := ""
	for _, o := range outcomes {
		if strings.Contains(line, o.line) {
			has = o.has
		}
	}
	if strings.Contains(line, "watch=1") {
		s.watch(line, has, variables)
		return
	}
	again := strings.Contains(line, "kubectl") && !strings.Contains(line, "annotate") // it only reads: its output follows in a moment
	s.Must(env.Eventually(s.Ctx, func(context.Context) error {
		out, err := s.try(line, variables...)
		if err == nil && !strings.Contains(out, has) {
			err = fmt.Errorf("%s: the output lacks %q:\n%s", line, has, out)
		}
		if err != nil && !again {
			s.T.Fatal(err)
		}
		return err
	}))
}

// watch runs a line that has no end until its output has a text, and posts an event for that.
func (s *shell) watch(line, has string, variables []string) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.Ctx, 30*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-ec", "exec "+line)
	c.Env = append(append([]string{}, s.env...), variables...)
	out, err := c.StdoutPipe()
	s.Must(err)
	s.Must(c.Start())
	posted, found := false, false
	for lines := bufio.NewScanner(out); !found && lines.Scan(); found = strings.Contains(lines.Text(), has) {
		if !posted {
			s.PostEvent(s.Tenant, "Kustomization", "app", "error", "BuildFailed", "again no such file", "main@sha1:2")
			posted = true
		}
	}
	cancel()
	_ = c.Wait() // it was killed
	if !found {
		s.T.Errorf("%s: the output lacks %q", line, has)
	}
}

// setUpAsThePageSays makes the objects of docs/deliveries.md: Provider slack, Alert all, Receiver github, and one
// delivery that was given up, whose ID it returns. The destination refuses requests until up is set. The tenant's user
// and the service account default have the role edit, as the page assumes.
func setUpAsThePageSays(s *shell, up *atomic.Bool) (dead string) {
	for _, account := range []string{env.OwnerAccount, "default"} {
		_, err := s.Tenant.Client.RbacV1().RoleBindings(s.Tenant.Namespace).Create(s.Ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: account + "-edit"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.Tenant.Namespace, Name: account}},
		}, metav1.CreateOptions{})
		s.Must(err)
		for _, role := range []string{"notifier-view", "notifier-edit"} {
			s.Must(s.Tenant.AwaitAllowed(s.Ctx, true, env.ServiceAccountUser(s.Tenant.Namespace, account), s.Tenant.Namespace, added[role]...))
		}
	}
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", "app", nil, ""))
	sink := s.NewSink()
	sink.AnswerWith(func(env.Received) env.Answer {
		if !up.Load() {
			return env.Answer{Status: http.StatusGone}
		}
		return env.Answer{}
	})
	s.Must(s.Tenant.Provider(s.Ctx, "slack", "generic", sink.URL("/")))
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "all", nil, `{"providerRef":{"name":"slack"},"eventSources":[`+env.AnyKustomization+`]}`))
	for kind, name := range map[string]string{"Provider": "slack", "Alert": "all"} {
		_, err := s.Tenant.WaitCondition(s.Ctx, kind, name, "Serving", metav1.ConditionTrue, "")
		s.Must(err)
	}
	s.Push(s.Receiver(s.Tenant, "github", "token", ""), "token", http.StatusOK)
	s.PostEvent(s.Tenant, "Kustomization", "app", "error", "BuildFailed", "no such file", "main@sha1:1")
	s.Must(env.Eventually(s.Ctx, func(context.Context) error {
		if found := s.ids("notifier deliveries list --state=dead"); len(found) == 1 {
			dead = found[0]
			return nil
		}
		return errors.New("the dead letter is not listed")
	}))
	s.Must(env.Eventually(s.Ctx, func(context.Context) error { // the results of webhooks are reported every few seconds
		out, err := s.try("notifier webhooks list")
		if err == nil && out == "" {
			err = errors.New("no webhook is listed")
		}
		return err
	}))
	return dead
}

// Fails when a shell line of docs/deliveries.md does not do its described work, for a user with the role edit in one
// namespace, or when the command shows that user another namespace. kubectl is that of Kubernetes, built from its own
// repository in the version that test/kubectl pins, and curl is the machine's. The test changes only the name of the
// namespace in the lines.
func TestEachCommandOfTheDocumentationIsRun(t *testing.T) {
	kubectl := buildKubectl(t) // before the time of the test begins
	s := newShell(setUp(t).Fixture, kubectl)
	var up atomic.Bool
	dead := setUpAsThePageSays(s, &up)
	event := s.ids("notifier events list")[0]
	variables := []string{"ID=" + dead, "OTHER=" + strings.Repeat("0", len(dead)), "EVENT=" + event, "API=" + s.APIURL}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "deliveries.md"))
	s.Must(err)
	ran := map[string]int{}
	for _, block := range shellBlock.FindAllStringSubmatch(string(page), -1) {
		for _, found := range shellLine.FindAllStringSubmatch(block[1], -1) {
			line := strings.ReplaceAll(found[1], "team-a", s.Tenant.Namespace)
			up.Store(up.Load() || strings.Contains(line, "deliveries replay"))
			if name := assignment.FindStringSubmatch(line); name != nil {
				variables = append(variables, name[1]+"="+s.run(line+"\nprintf %s \"$"+name[1]+"\"", variables...))
			} else {
				s.line(line, variables)
			}
			ran[strings.Fields(line)[0]]++
		}
	}
	if ran["notifier"] < 10 || ran["kubectl"] < 8 || ran["curl"] < 2 {
		t.Errorf("the page has lines of %v", ran)
	}
	s.Must(env.Eventually(s.Ctx, func(context.Context) error { // the annotation is acted on after kubectl has ended
		provider, err := s.Tenant.Get(s.Ctx, "Provider", "slack")
		if err != nil {
			return err
		}
		if last, _, _ := unstructured.NestedString(provider.Object, "status", "lastHandledReplay"); last != "since=1h" {
			return fmt.Errorf("the last replay that was acted on is %q", last)
		}
		return nil
	}))
	other := s.NewTenant()
	if out, err := s.try("notifier deliveries list -n " + other.Namespace); err == nil || strings.TrimSpace(out) != "" {
		t.Errorf("another namespace: error %v, output %s", err, out)
	}
	if help := s.run("kubectl-notifier deliveries list --help"); !strings.Contains(help, "kubectl notifier deliveries list") {
		t.Errorf("the plugin's help is\n%s", help)
	}
}
