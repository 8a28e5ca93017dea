package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Command describes a child process.
type Command struct {
	// Path of the program; required.
	Path string
	Args []string
	// Env is added to this process's environment, less KUBECONFIG, so that a child reaches only a cluster that its
	// caller names.
	Env []string
	// Dir is the working directory; empty: this process's.
	Dir string
	// LogFile also receives the output; may be empty.
	LogFile string
	// DeathSignal is sent to the child when this process is killed; zero: SIGKILL.
	DeathSignal syscall.Signal
	// attributes changes how the child is started; may be nil.
	attributes func(*syscall.SysProcAttr)
}

// Process is a child process, running or ended.
type Process struct {
	command Command
	cmd     *exec.Cmd
	output  output
	log     *os.File
	exited  chan struct{}
	err     error // valid when exited is closed
}

// Start starts a child process. It does not wait for readiness.
func Start(c Command) (*Process, error) {
	if c.DeathSignal == 0 {
		c.DeathSignal = syscall.SIGKILL
	}
	p := &Process{command: c, cmd: exec.Command(c.Path, c.Args...), exited: make(chan struct{})}
	p.output.changed = make(chan struct{})
	var sink io.Writer = &p.output
	if c.LogFile != "" {
		f, err := os.OpenFile(c.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		p.log, sink = f, io.MultiWriter(&p.output, f)
	}
	p.cmd.Stdout, p.cmd.Stderr = sink, sink
	p.cmd.Dir = c.Dir
	p.cmd.Env = append(environment(), c.Env...)
	p.cmd.SysProcAttr = childAttributes(c.DeathSignal)
	if c.attributes != nil {
		c.attributes(p.cmd.SysProcAttr)
	}
	// A grandchild that kept the pipe open must not delay Wait.
	p.cmd.WaitDelay = 2 * time.Second

	var err error
	onSpawnThread(func() { err = p.cmd.Start() })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", p.Name(), err), p.closeLog())
	}
	register(p)
	go p.wait()
	return p, nil
}

func (p *Process) wait() {
	p.err = errors.Join(p.cmd.Wait(), p.closeLog())
	unregister(p)
	close(p.exited)
}

func (p *Process) closeLog() error {
	if p.log == nil {
		return nil
	}
	return p.log.Close()
}

// Name is the program's file name.
func (p *Process) Name() string { return filepath.Base(p.command.Path) }

// PID returns the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err returns the error with which the process ended; nil while it runs and after exit code 0.
func (p *Process) Err() error {
	select {
	case <-p.exited:
		return p.err
	default:
		return nil
	}
}

// Logs returns the process's output so far, or the last 16 MiB or more of it.
func (p *Process) Logs() string { return p.output.String() }

// Ready waits until a GET of url is answered 200. It fails at once, with the end of the log, when the process ends.
func (p *Process) Ready(ctx context.Context, url string) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return p.whileRunning(ctx, func(ctx context.Context) error {
		return Eventually(ctx, func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				body, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
				return fmt.Errorf("GET %s: %s: %s", url, resp.Status, body)
			}
			return nil
		})
	})
}

// WaitLog waits for a whole line of output that match accepts, and returns it.
func (p *Process) WaitLog(ctx context.Context, match func(line string) bool) (string, error) {
	var found string
	err := p.whileRunning(ctx, func(ctx context.Context) (err error) {
		found, err = p.output.wait(ctx, match)
		return err
	})
	return found, err
}

// whileRunning runs f with a context that ends with the process.
func (p *Process) whileRunning(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-p.exited:
			cancel(fmt.Errorf("the process ended: %w", errors.Join(p.err, errors.New("see log"))))
		case <-stop:
		}
	}()
	if err := f(ctx); err != nil {
		return fmt.Errorf("%s: %w; its log ends with:\n%s", p.Name(), err, tail(p.Logs(), 4096))
	}
	return nil
}

// Signal sends a signal to the process; nil if it already ended. Package os ensures that the signal never reaches a
// later process of the same number.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s to %s: %w", s, p.Name(), err)
	}
	return nil
}

// Kill9 ends the process as a crash does and waits for its end.
func (p *Process) Kill9() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// Terminate sends SIGTERM and returns how the process ended. A process that still runs after timeout is killed, which is
// an error.
func (p *Process) Terminate(timeout time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.exited:
		return p.err
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not end within %s of SIGTERM", p.Name(), timeout), p.Kill9())
	}
}

// Pause stops the process without ending it, as on a machine that hangs; its sockets stay open. Resume lets it continue.
func (p *Process) Pause() error { return p.Signal(syscall.SIGSTOP) }

// Resume undoes Pause.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Again starts the same command once more; the process must have ended.
func (p *Process) Again() (*Process, error) {
	select {
	case <-p.exited:
		return Start(p.command)
	default:
		return nil, fmt.Errorf("%s is still running", p.Name())
	}
}

// environment returns this process's environment, less the variables that could direct a child to a real cluster.
func environment() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "KUBECONFIG=") && !strings.HasPrefix(kv, "KUBERNETES_SERVICE_") {
			env = append(env, kv)
		}
	}
	return env
}

// onSpawnThread runs f on one thread that lives as long as this process: the kernel sends the death signal when the
// thread that started the child ends, not when the process does.
func onSpawnThread(f func()) {
	done := make(chan struct{})
	spawnThread() <- func() { defer close(done); f() }
	<-done
}

var spawnThread = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
