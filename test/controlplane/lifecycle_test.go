package controlplane_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// stopTimeout is "within seconds", with time to spare on a busy machine.
const stopTimeout = 15 * time.Second

// ownCluster starts a control plane for one test and returns it with its temporary
// directory, in which it keeps its data.
func ownCluster(t *testing.T, args ...string) (c *env.Cluster, tmp string) {
	t.Helper()
	t.Setenv("TEST_KUBECONFIG", "")
	tmp = t.TempDir()
	t.Setenv("TMPDIR", tmp)
	c, err := env.StartControlPlane(within(t), env.ClusterOptions{Args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	return c, tmp
}

// gone waits for the end of a process that need not be a child of this one. A process that its parent has not reaped yet
// counts as ended.
func gone(ctx context.Context, pid int) error {
	return env.Eventually(ctx, func(context.Context) error {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
			return nil
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, os.ErrNotExist) || strings.Contains(string(stat), ") Z ") {
			return nil
		}
		return fmt.Errorf("process %d is still there", pid)
	})
}

func dataDirs(t *testing.T, tmp string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(tmp, "controlplane-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Fails when the end waits for open watches, or the data directory is not removed.
func TestStopLeavesNoProcessAndNoFile(t *testing.T) {
	c, tmp := ownCluster(t)
	if got := dataDirs(t, tmp); len(got) != 1 {
		t.Fatalf("while running, data directories are %q, want one", got)
	}
	// An open watch must not delay the end.
	w, err := c.Client.CoreV1().Namespaces().Watch(within(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	start := time.Now()
	if err := c.Process.Terminate(stopTimeout); err != nil {
		t.Errorf("terminate: %v\n%s", err, c.Process.Logs())
	}
	t.Logf("stopped after %s", time.Since(start).Round(time.Millisecond))
	if err := gone(within(t), c.Process.PID()); err != nil {
		t.Error(err)
	}
	if got := dataDirs(t, tmp); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
	if _, err := os.Stat(c.Kubeconfig); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("kubeconfig is still there: %v", err)
	}
}

func TestDataDirectoryIsContinued(t *testing.T) {
	ports, err := env.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--data-dir", t.TempDir(), "--port", strconv.Itoa(ports[0])}
	c, _ := ownCluster(t, args...)
	ns := namespace(t, c)
	if err := c.Process.Kill9(); err != nil {
		t.Fatal(err)
	}
	again, err := c.Process.Again()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Terminate(stopTimeout) })
	if _, err := again.WaitLog(within(t), func(line string) bool { return strings.HasPrefix(line, "ready ") }); err != nil {
		t.Fatal(err)
	}
	// The earlier client: same address, same certificates, same objects.
	if _, err := c.Client.CoreV1().Namespaces().Get(within(t), ns, metav1.GetOptions{}); err != nil {
		t.Errorf("after kill -9 and a new start: %v", err)
	}
}

func TestBadFlagsAreRefused(t *testing.T) {
	t.Parallel()
	path, err := env.ControlPlaneProgram(within(t))
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ flag, value, complaint string }{
		"a controller that does not exist": {"--controllers", "namespace,nobody", `unknown controller "nobody"`},
		"a flag kube-apiserver lacks":      {"--apiserver-flag", "--no-such-flag=1", "unknown flag: --no-such-flag"},
		"a flag the program lacks":         {"--no-such-flag", "1", "flag provided but not defined: -no-such-flag"},
	}
	for name, tc := range cases {
		out, err := exec.CommandContext(within(t), path, tc.flag, tc.value).CombinedOutput()
		if err == nil || !strings.Contains(string(out), tc.complaint) {
			t.Errorf("%s: error %v, output %q, want %q", name, err, out, tc.complaint)
		}
	}
}

func TestEndsWhenStandardInputCloses(t *testing.T) {
	t.Parallel()
	path, err := env.ControlPlaneProgram(within(t))
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	cmd := exec.Command(path, "--exit-with-stdin")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || !strings.HasPrefix(line, "ready ") {
		t.Fatalf("first line is %q, %v", line, err)
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if got := dataDirs(t, tmp); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

// parentRole makes this test binary, run once more, the parent that is killed.
const parentRole = "HARNESS_TEST_PARENT"

// Fails when the child is started without a parent death signal.
func TestEndsWhenItsParentIsKilled(t *testing.T) {
	if os.Getenv(parentRole) != "" {
		c, _ := ownCluster(t)
		fmt.Println("child", c.Process.PID())
		// The other end is closed by the death of the real test only.
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	tmp := t.TempDir()
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	parent.Env = append(os.Environ(), parentRole+"=1", "TMPDIR="+tmp)
	stdin, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	child := 0
	for lines := bufio.NewScanner(stdout); child == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "child %d", &child)
	}
	if child == 0 {
		t.Fatal("the parent did not start a control plane")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	if err := gone(within(t), child); err != nil {
		t.Error(errors.Join(err, syscall.Kill(child, syscall.SIGKILL)))
	}
	left, err := filepath.Glob(filepath.Join(tmp, "*", "*", "controlplane-*", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
