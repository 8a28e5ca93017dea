package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const kubeconfig = `{"apiVersion":"v1","kind":"Config","current-context":"c",
	"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}]}`

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
