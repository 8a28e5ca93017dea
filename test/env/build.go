package env

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// testModule is the first line of this module's go.mod.
const testModule = "module notifier/test\n"

// ModuleDir returns the directory of the test module. It searches from the working directory upwards; the repository's
// root and every directory below it will do.
func ModuleDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		for _, candidate := range []string{dir, filepath.Join(dir, "test")} {
			mod, err := os.ReadFile(filepath.Join(candidate, "go.mod"))
			if err == nil && strings.HasPrefix(string(mod), testModule) {
				return candidate, nil
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the working directory is not inside the repository")
		}
		dir = parent
	}
}

// ProductDir returns the repository's root, the directory of module notifier.
func ProductDir() (string, error) {
	dir, err := ModuleDir()
	return filepath.Dir(dir), err
}

// BinDir returns the directory of built programs, which are kept so that the next run finds them up to date.
func BinDir() (string, error) {
	dir, err := ModuleDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "bin")
	return dir, os.MkdirAll(dir, 0o755)
}

// CanRace reports whether a C compiler is present, which -race needs.
func CanRace() bool {
	for _, cc := range []string{os.Getenv("CC"), "cc", "gcc", "clang"} {
		if cc == "" {
			continue
		}
		if _, err := exec.LookPath(cc); err == nil {
			return true
		}
	}
	return false
}

// run identifies the run of the tests: TEST_RUN, which "make test" sets for all of its processes, or else this process.
var run = cmp.Or(os.Getenv("TEST_RUN"), fmt.Sprint(os.Getpid(), "-", time.Now().UnixNano()))

// Build compiles pkg, as seen from dir, into the file out, unless that was done in this run of the tests: to find a program up to date
// takes the go command up to a second of the processor. Race is honoured only where CanRace. Two builds of one file, also by two
// processes, wait for each other. A long build reports itself on standard error.
func Build(ctx context.Context, dir, pkg, out string, race bool) error {
	lock, err := lockFile(ctx, out+".lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	// The file of the lock names the run that has built the program.
	by, err := io.ReadAll(lock)
	if err != nil {
		return err
	}
	if _, err := os.Stat(out); err == nil && string(by) == run {
		return nil
	}

	// Without debug information a program is linked faster and takes half the space.
	args := []string{"build", "-o", out, "-ldflags=-s -w"}
	if race && CanRace() {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PWD="+dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = endTimeout
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output

	done := make(chan struct{})
	defer close(done)
	go reportWait(done, "building "+filepath.Base(out)+" (minutes the first time, cached after)")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, errors.Join(err, context.Cause(ctx)), output.String())
	}
	return os.WriteFile(lock.Name(), []byte(run), 0o644)
}

// BuildProgram builds a package of the product, such as ./cmd/notifier, and returns the
// program's path.
func BuildProgram(ctx context.Context, pkg string, race bool) (string, error) {
	dir, err := ProductDir()
	if err != nil {
		return "", err
	}
	return buildInto(ctx, dir, pkg, race)
}

// BuildPinned builds a program of another module, such as github.com/fluxcd/source-controller, in the version that the
// go.mod in a directory of this module pins, and returns the program's path.
func BuildPinned(ctx context.Context, pins, pkg string) (string, error) {
	dir, err := ModuleDir()
	if err != nil {
		return "", err
	}
	return buildInto(ctx, filepath.Join(dir, pins), pkg, false)
}

// buildInto builds into BinDir under the package's name.
func buildInto(ctx context.Context, dir, pkg string, race bool) (string, error) {
	bin, err := BinDir()
	if err != nil {
		return "", err
	}
	out := filepath.Join(bin, filepath.Base(pkg))
	if race && CanRace() {
		out += "-race"
	}
	return out, Build(ctx, dir, pkg, out, race)
}

// reportWait prints a line every 20 s until done is closed.
func reportWait(done <-chan struct{}, what string) {
	start := time.Now()
	ticker := time.NewTicker(20 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			fmt.Fprintf(os.Stderr, "env: %s: %s\n", what, time.Since(start).Round(time.Second))
		}
	}
}

// lockFile takes an advisory lock, which ends when the file is closed or this process dies.
func lockFile(ctx context.Context, name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = Eventually(ctx, func(context.Context) error {
		return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
	}
	return f, nil
}
