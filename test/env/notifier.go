package env

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// readyTimeout bounds the time from start to ready.
const readyTimeout = 60 * time.Second

// NotifierOptions configure one process.
type NotifierOptions struct {
	// Args are added to the command line that Start composes, and override it.
	Args []string
	Env  []string
	// DataDir is the directory of the embedded bus; empty: a new temporary one.
	DataDir string
	// Under is a program with its arguments, such as a tracer, that runs the notifier in its own process, by exec.
	Under []string
	// Kubeconfig is the process's identity at the API server; empty: the service account of the install.
	Kubeconfig string
}

// Notifier is one notifier process. Its addresses stay the same over restarts.
type Notifier struct {
	system  *System
	process *Process
	// EventsURL, HooksURL, MetricsURL, HealthURL and APIURL are the bases of its endpoints, without a trailing slash.
	EventsURL, HooksURL, MetricsURL, HealthURL, APIURL string
	DataDir                                            string
	HTTP                                               *http.Client
}

// Start starts a notifier and waits until it is ready.
func (w *System) Start(ctx context.Context, o NotifierOptions) (*Notifier, error) {
	n, err := w.Launch(ctx, o)
	if err != nil {
		return nil, err
	}
	return n, n.Ready(ctx)
}

// Launch starts a notifier and does not wait for it.
func (w *System) Launch(ctx context.Context, o NotifierOptions) (*Notifier, error) {
	dir := o.DataDir
	if dir == "" {
		var err error
		if dir, err = TempDir("data"); err != nil {
			return nil, err
		}
	}
	kubeconfig := o.Kubeconfig
	if kubeconfig == "" {
		out, err := TempDir("identity")
		if err != nil {
			return nil, err
		}
		kubeconfig = filepath.Join(out, "kubeconfig")
		if err := w.KubeconfigAs(ctx, SystemNamespace, ServiceAccount, kubeconfig); err != nil {
			return nil, err
		}
	}
	ports, err := FreePorts(5)
	if err != nil {
		return nil, err
	}
	addr := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	args := []string{
		"serve", "--kubeconfig", kubeconfig, "--data-dir", dir,
		"--events-addr", addr(0), "--receiverAddr", addr(1), "--metrics-addr", addr(2), "--health-addr", addr(3), "--api-addr", addr(4),
		"--allow-destinations", "127.0.0.0/8",
	}
	command := slices.Concat(o.Under, []string{w.Program}, args, o.Args)
	p, err := Start(Command{
		Path: command[0], Args: command[1:], Env: append([]string{"RUNTIME_NAMESPACE=" + SystemNamespace}, o.Env...),
	})
	if err != nil {
		return nil, err
	}
	return &Notifier{
		system: w, process: p, DataDir: dir,
		EventsURL: "http://" + addr(0), HooksURL: "http://" + addr(1),
		MetricsURL: "http://" + addr(2), HealthURL: "http://" + addr(3), APIURL: "http://" + addr(4),
		HTTP: &http.Client{
			Timeout:   30 * time.Second,
			Transport: &http.Transport{MaxIdleConns: 0, MaxIdleConnsPerHost: 256, IdleConnTimeout: 30 * time.Second},
		},
	}, nil
}

// Serving waits until the process reports itself ready.
func (n *Notifier) Serving(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := n.process.Ready(ctx, n.HealthURL+"/readyz"); err != nil {
		return fmt.Errorf("%w\n%s", err, lastLines(n.Logs(), 30))
	}
	return nil
}

// Ready waits until the process is ready and has read all Flux objects.
func (n *Notifier) Ready(ctx context.Context) error {
	if err := n.Serving(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return Eventually(ctx, func(ctx context.Context) error {
		resp, err := n.Do(ctx, http.MethodGet, n.HealthURL+"/readyz", nil, nil)
		if err == nil && (resp.Status != http.StatusOK || !strings.Contains(string(resp.Body), "[+] objects")) {
			err = fmt.Errorf("/readyz: %s", resp.Body)
		}
		return err
	})
}

// Memory returns the process's memory in RAM, the pages of its files included, in MiB; with peak, the greatest amount so
// far.
func (n *Notifier) Memory(peak bool) (float64, error) {
	field := "VmRSS:"
	if peak {
		field = "VmHWM:"
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.process.PID()))
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if value, ok := strings.CutPrefix(line, field); ok {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("no %s in the status of the process", field)
}

// Process returns the running process, which changes with every Restart.
func (n *Notifier) Process() *Process { return n.process }

// Logs returns the output of the process since it was last started.
func (n *Notifier) Logs() string { return n.process.Logs() }

// Kill ends the process with SIGKILL.
func (n *Notifier) Kill() error { return n.process.Kill9() }

// Stop ends the process as a kubelet does.
func (n *Notifier) Stop() error { return n.process.Terminate(15 * time.Second) }

// Restart starts the ended process again, with the same data, and waits until it is ready.
func (n *Notifier) Restart(ctx context.Context) error {
	if err := n.Relaunch(); err != nil {
		return err
	}
	return n.Ready(ctx)
}

// Relaunch starts the ended process again and does not wait for it.
func (n *Notifier) Relaunch() error {
	p, err := n.process.Again()
	if err != nil {
		return err
	}
	n.process = p
	n.HTTP.CloseIdleConnections()
	return nil
}

// lastLines returns the end of a log.
func lastLines(log string, n int) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// System returns the cluster that the process serves.
func (n *Notifier) System() *System { return n.system }
