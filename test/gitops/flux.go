package gitops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"notifier/test/env"
)

// endTimeout bounds the end of a controller after SIGTERM.
const endTimeout = 15 * time.Second

// Flux is a running source-controller and a running kustomize-controller.
type Flux struct {
	Source, Kustomize *Controller
	storage           string // of source-controller
}

// Controller is one of the two controllers.
type Controller struct {
	process *env.Process
	health  string
}

// Options configure Programs.Start.
type Options struct {
	// Events is the address for the controllers' POSTs of events; empty: none.
	Events string
	// ServiceAccount is the account of a tenant's namespace as which its Kustomizations apply.
	ServiceAccount string
}

// Programs are the paths of both.
type Programs struct {
	Source, Kustomize string
}

// Build builds both programs, which takes minutes the first time.
func Build(ctx context.Context) (p Programs, err error) {
	if p.Source, err = env.BuildPinned(ctx, pins, sourceModule); err != nil {
		return p, err
	}
	p.Kustomize, err = env.BuildPinned(ctx, pins, kustomizeModule)
	return p, err
}

// Start starts both controllers on a cluster that [Install] has prepared, and waits until they are ready. They are
// locked down as Flux's documentation recommends for several tenants.
func (p Programs) Start(ctx context.Context, cluster *env.Cluster, o Options) (*Flux, error) {
	storage, err := env.TempDir("artifacts")
	if err != nil {
		return nil, err
	}
	ports, err := env.FreePorts(1)
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	f := &Flux{storage: storage}
	f.Source, err = start(ctx, cluster, p.Source, sourceNamespace,
		"--events-addr", o.Events, "--storage-path", storage, "--storage-addr", address, "--storage-adv-addr", address)
	if err != nil {
		return nil, err
	}
	f.Kustomize, err = start(ctx, cluster, p.Kustomize, kustomizeNamespace,
		"--events-addr", o.Events, "--default-service-account", o.ServiceAccount, "--no-cross-namespace-refs", "--no-remote-bases")
	if err != nil {
		return nil, err
	}
	return f, errors.Join(f.Source.Ready(ctx), f.Kustomize.Ready(ctx))
}

// start starts a controller as its service account.
func start(ctx context.Context, cluster *env.Cluster, program, namespace string, args ...string) (*Controller, error) {
	home, err := env.TempDir("controller")
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(home, "kubeconfig")
	if err := cluster.KubeconfigAs(ctx, namespace, account, kubeconfig); err != nil {
		return nil, err
	}
	ports, err := env.FreePorts(1)
	if err != nil {
		return nil, err
	}
	health := fmt.Sprintf("127.0.0.1:%d", ports[0])
	common := []string{"--health-addr", health, "--metrics-addr", "0", "--watch-all-namespaces", "--log-encoding", "json"}
	p, err := env.Start(env.Command{
		Path: program, Args: append(common, args...), Dir: home,
		Env: []string{"KUBECONFIG=" + kubeconfig, "RUNTIME_NAMESPACE=" + namespace, "HOME=" + home, "TMPDIR=" + home},
	})
	if err != nil {
		return nil, err
	}
	return &Controller{process: p, health: "http://" + health}, nil
}

// Ready waits until the controller reports itself ready.
func (c *Controller) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return c.process.Ready(ctx, c.health+"/readyz")
}

// Stop ends the controller as a kubelet does.
func (c *Controller) Stop() error { return c.process.Terminate(endTimeout) }

// Again starts the stopped controller once more and waits until it is ready.
func (c *Controller) Again(ctx context.Context) error {
	p, err := c.process.Again()
	if err != nil {
		return err
	}
	c.process = p
	return c.Ready(ctx)
}

// Logs returns the controller's output since it was last started.
func (c *Controller) Logs() string { return c.process.Logs() }

// LoseStorage removes the artifacts of source-controller, as the end of its Pod does.
func (f *Flux) LoseStorage() error {
	entries, err := os.ReadDir(f.storage)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(f.storage, e.Name())))
	}
	return errors.Join(errs...)
}
