package e2e

import (
	"bytes"
	"context"
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

	"notifier/test/env"
)

// shell runs command lines as a tenant's user types them.
type shell struct {
	*env.Fixture
	env []string
}

// newShell returns the shell of a service account of the tenant that may do there what the product's roles for owners allow.
func newShell(s *env.Fixture) *shell {
	namespace := s.Tenant.Namespace
	_, err := s.System.Owner(s.Ctx, namespace, namespace)
	s.Must(err)
	dir := s.T.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	s.Must(s.System.KubeconfigAs(s.Ctx, namespace, env.OwnerAccount, kubeconfig))
	for _, name := range []string{"notifier", "kubectl-notifier"} {
		s.Must(os.Symlink(s.System.Program, filepath.Join(dir, name)))
	}
	return &shell{s, []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "KUBECONFIG=" + kubeconfig, "NOTIFIER_SERVER=" + s.Notifier.APIURL, "HOME=" + dir}}
}

// try runs a line and returns what it wrote.
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

// ids are what a list's items are identified by.
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

var commandLine = regexp.MustCompile(`(?m)^\$ (notifier [^#\n]*)`)

// Fails when a command line of docs/deliveries.md does not do what the page says, for a user who has the product's roles for owners in
// one namespace, or when the command shows that user another namespace.
func TestEachCommandOfTheDocumentationIsRun(t *testing.T) {
	s := newShell(setUp(t).Fixture)
	var up atomic.Bool
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", "app", nil, ""))
	sink := s.NewSink()
	sink.AnswerWith(func(env.Received) env.Answer {
		if !up.Load() {
			return env.Answer{Status: http.StatusGone}
		}
		return env.Answer{}
	})
	s.Must(s.Tenant.Alert(s.Ctx, "slack", "generic", sink.URL("/"), env.AnyKustomization))
	s.Push(s.Receiver(s.Tenant, "github", "token", ""), "token", http.StatusOK)
	s.PostEvent(s.Tenant, "Kustomization", "app", "error", "BuildFailed", "no such file", "main@sha1:1")
	dead := ""
	s.Must(env.Eventually(s.Ctx, func(context.Context) error {
		if found := s.ids("notifier deliveries list --state=dead"); len(found) == 1 {
			dead = found[0]
			return nil
		}
		return errors.New("the dead letter is not listed")
	}))
	s.Must(env.Eventually(s.Ctx, func(context.Context) error { // what became of webhooks is told every few seconds
		out, err := s.try("notifier webhooks list")
		if err == nil && out == "" {
			err = errors.New("no webhook is listed")
		}
		return err
	}))
	up.Store(true)
	event := s.ids("notifier events list")[0]

	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "deliveries.md"))
	s.Must(err)
	lines := commandLine.FindAllStringSubmatch(string(page), -1)
	if len(lines) < 10 {
		t.Fatalf("the page has %d command lines", len(lines))
	}
	for _, line := range lines {
		out := s.run(line[1], "ID="+dead, "EVENT="+event)
		for command, want := range map[string]string{
			"show": "HTTP 410", "explain": "yes", "webhooks": "accepted", "test": "accepted the test message", "ui": "#token=",
		} {
			if strings.Contains(line[1], " "+command) && !strings.Contains(out, want) {
				t.Errorf("%s: the output lacks %q:\n%s", line[1], want, out)
			}
		}
	}
	other := s.NewTenant()
	if out, err := s.try("notifier deliveries list -n " + other.Namespace); err == nil || strings.TrimSpace(out) != "" {
		t.Errorf("another namespace: error %v, output %s", err, out)
	}
	if help := s.run("kubectl-notifier deliveries list --help"); !strings.Contains(help, "kubectl notifier deliveries list") {
		t.Errorf("the plugin's help is\n%s", help)
	}
}
