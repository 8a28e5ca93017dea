package env

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// endTimeout is how long Shutdown waits for a child before it kills it.
const endTimeout = 10 * time.Second

// registry records the processes and directories that must not outlive this process.
var registry struct {
	sync.Mutex
	processes map[*Process]struct{}
	dirs      []string
}

// parallelTests is how many tests of a package that call t.Parallel run at a time, unless -parallel is given. They mostly
// wait for other processes, so it does not depend on the number of processors, which is go test's default.
const parallelTests = 8

// Main is the body of a TestMain: it runs the tests, ends the processes that they started and exits.
func Main(m *testing.M) { MainParallel(m, parallelTests) }

// MainParallel is Main with another number of tests that run at a time, unless -parallel is given.
func MainParallel(m *testing.M, parallel int) {
	if role := os.Getenv(diskRole); role != "" {
		os.Exit(holdDisk(role))
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(parallel)) // go test declares it
	}
	code := m.Run()
	if err := Shutdown(); err != nil {
		fmt.Fprintln(os.Stderr, "env:", err)
		code = 1
	}
	os.Exit(code)
}

// Shutdown ends all running processes that the harness started, all at once, and removes the temporary directories of
// [TempDir].
func Shutdown() error {
	registry.Lock()
	var running []*Process
	for p := range registry.processes {
		running = append(running, p)
	}
	dirs := registry.dirs
	registry.dirs = nil
	registry.Unlock()

	var ending sync.WaitGroup
	for _, p := range running {
		ending.Go(func() { _ = p.Terminate(endTimeout) })
	}
	ending.Wait()
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// TempDir makes a directory that Shutdown removes.
func TempDir(name string) (string, error) {
	dir, err := os.MkdirTemp("", "notifier-"+name+"-")
	if err != nil {
		return "", err
	}
	registry.Lock()
	defer registry.Unlock()
	registry.dirs = append(registry.dirs, dir)
	return dir, nil
}

func register(p *Process) {
	registry.Lock()
	defer registry.Unlock()
	if registry.processes == nil {
		registry.processes = map[*Process]struct{}{}
	}
	registry.processes[p] = struct{}{}
}

func unregister(p *Process) {
	registry.Lock()
	defer registry.Unlock()
	delete(registry.processes, p)
}
