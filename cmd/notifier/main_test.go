package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const kubeconfig = `{"apiVersion":"v1","kind":"Config","current-context":"c",
	"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
	"users":[{"name":"u","user":{"token":"t"}}]}`

// onLine calls then when a line of a log has the given text.
type onLine struct {
	text string
	then func()
}

func (o onLine) Write(line []byte) (int, error) {
	if strings.Contains(string(line), o.text) {
		o.then()
	}
	return len(line), nil
}

// Fails when a command line that cannot be understood ends like a request that failed, or the other way round: scripts tell them apart by the
// exit code.
func TestAWrongCommandLineHasAnExitCodeOfItsOwn(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	reach := []string{"--server=http://127.0.0.1:1", "--kubeconfig=" + config}
	for line, want := range map[string]int{
		"": exitUsage, "nonsense": exitUsage, "serve extra": exitUsage, "serve --none": exitUsage, "serve --log-level=loud": exitUsage,
		"version extra": exitUsage, "deliveries nonsense": exitUsage, "deliveries show": exitUsage, "deliveries list extra": exitUsage,
		"deliveries list --none": exitUsage, "deliveries list --output=xml": exitUsage, "webhooks list --since=yesterday": exitUsage,
		"version": exitOK, "help": exitOK, "deliveries": exitOK, "deliveries list --help": exitOK, "deliveries list": exitError,
		"deliveries replay": exitUsage, "deliveries replay one --state=dead": exitUsage, "deliveries replay one": exitError,
	} {
		args := strings.Fields(line)
		if strings.HasPrefix(line, "deliveries replay") || line == "deliveries list" {
			args = append(args, reach...)
		}
		var said strings.Builder
		if got := run(args, io.Discard, &said); got != want {
			t.Errorf("notifier %s: exit code %d, want %d: %s", line, got, want, said.String())
		}
	}
}

// Fails when a wrong flag, argument or command leaves its user without the list of the right ones, or an argument is called a command.
func TestAWrongFlagOrArgumentNamesTheHelpOfItsCommand(t *testing.T) {
	for line, want := range map[string]string{
		"serve --none": "see notifier serve --help", "deliveries list --none": "see notifier deliveries list --help",
		"serve --delivery-max-age=soon": "see notifier serve --help", "--none": "after the command serve",
		"nonsense": `no command "nonsense"; see notifier --help`, "deliveries nonsense": `no command "nonsense"; see notifier deliveries --help`,
		"deliveries list slack": `unexpected argument "slack"; see notifier deliveries list --help`, "serve extra": "see notifier serve --help",
		"version extra": "see notifier version --help",
	} {
		var said strings.Builder
		if run(strings.Fields(line), io.Discard, &said); !strings.Contains(said.String(), want) {
			t.Errorf("notifier %s: %s, want %q", line, said.String(), want)
		}
	}
}

// A Deployment that is rolled back ends a process that still waits for the data directory of the one before it. Fails when that is an error,
// which Kubernetes shows as a crash.
func TestAProcessThatIsEndedWhileItStartsEndsWell(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	waits := false
	root := newRoot()
	root.SetArgs([]string{"serve", "--data-dir", dir, "--kubeconfig", config})
	root.SetErr(onLine{"waiting for another process", func() { waits = true; end() }})
	if err := root.ExecuteContext(ctx); err != nil || !waits {
		t.Errorf("waited: %v; error %v", waits, err)
	}
}
