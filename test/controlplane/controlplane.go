package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// shutdownTimeout bounds how long Run waits, after its context ended, for its parts and then for etcd. An open watch
// would delay both for a minute. A shorter wait loses nothing: even a killed control plane starts from its data.
const shutdownTimeout = time.Second

// readyTimeout bounds the start; it takes about 3 s on two idle cores.
const readyTimeout = 2 * time.Minute

// Options configure Run. Dir is required.
type Options struct {
	// Dir has etcd's data, certificates and logs. Run continues a Dir that was used before: same objects, same
	// certificates.
	Dir string
	// Port is the API server's; 0 lets the kernel choose.
	Port int
	// Kubeconfig is the file of the admin's kubeconfig; empty: Dir/kubeconfig.
	Kubeconfig string
	// AuditLog is the audit log's file; empty: Dir/audit.log.
	AuditLog string
	// Controllers to run; nil: all of Controllers().
	Controllers []string
	// APIServerFlags are appended to kube-apiserver's command line.
	APIServerFlags []string
	// Progress is called at each step of the start; may be nil.
	Progress func(step string)
	// Ready is called once, when every part serves; may be nil.
	Ready func(kubeconfig string)
}

func (o Options) complete() (Options, error) {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("dir is required"))
	}
	if o.Kubeconfig == "" {
		o.Kubeconfig = filepath.Join(o.Dir, "kubeconfig")
	}
	if o.AuditLog == "" {
		o.AuditLog = filepath.Join(o.Dir, "audit.log")
	}
	if o.Controllers == nil {
		o.Controllers = Controllers()
	}
	for _, name := range o.Controllers {
		if !slices.Contains(Controllers(), name) {
			errs = append(errs, fmt.Errorf("unknown controller %q, known: %q", name, Controllers()))
		}
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Ready == nil {
		o.Ready = func(string) {}
	}
	return o, errors.Join(errs...)
}

// Run starts the control plane and blocks until ctx ends or a part fails. It returns
// nil when ctx ended after the control plane was ready.
func Run(ctx context.Context, o Options) error {
	o, err := o.complete()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	keys, err := loadOrCreatePKI(filepath.Join(o.Dir, "pki"))
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}

	o.Progress("starting etcd")
	store, endpoint, err := startEtcd(ctx, filepath.Join(o.Dir, "etcd"), filepath.Join(o.Dir, "etcd.log"))
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	defer bounded(store.Close)

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", o.Port))
	if err != nil {
		return err
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	defer bounded(parts.Wait)
	// Runs before the wait above: without it the parts would never end.
	defer cancel(nil)

	o.Progress("starting kube-apiserver")
	server, err := newAPIServer(running, o, keys, endpoint, listener)
	if err != nil {
		return fmt.Errorf("kube-apiserver: %w", errors.Join(err, listener.Close()))
	}
	parts.Go(func() { cancel(fmt.Errorf("kube-apiserver ended: %w", server.run(running))) })

	address := "https://" + listener.Addr().String()
	admin := keys.restConfig(address, keys.admin)
	if err := waitReady(running, admin, o.Progress); err != nil {
		return err
	}

	o.Progress("starting controllers")
	if err := runControllers(running, &parts, keys.restConfig(address, keys.controllers), o.Controllers); err != nil {
		return fmt.Errorf("controllers: %w", err)
	}
	if err := keys.writeKubeconfig(o.Kubeconfig, address); err != nil {
		return err
	}
	o.Ready(o.Kubeconfig)

	<-running.Done()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(running)
}

// waitReady returns when /readyz answers ok, which includes the bootstrap RBAC rules.
func waitReady(ctx context.Context, cfg *rest.Config, progress func(string)) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	start, told := time.Now(), time.Now()
	var last error
	err = wait.PollUntilContextTimeout(ctx, 25*time.Millisecond, readyTimeout, true, func(ctx context.Context) (bool, error) {
		_, last = client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if last != nil && time.Since(told) > 5*time.Second {
			told = time.Now()
			progress(fmt.Sprintf("waiting for kube-apiserver since %s", time.Since(start).Round(time.Second)))
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("kube-apiserver is not ready: %w", errors.Join(context.Cause(ctx), err, last))
	}
	return nil
}

// bounded runs f, but waits for it only for shutdownTimeout: the process is about to end anyway.
func bounded(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(shutdownTimeout):
	}
}
