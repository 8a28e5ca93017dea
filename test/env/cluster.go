package env

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// kubeconfigVariable names an existing cluster to use. KUBECONFIG is ignored: a test must not touch a cluster that a
	// person happens to use.
	kubeconfigVariable = "TEST_KUBECONFIG"
	// auditLogVariable names that cluster's audit log, for the tests that read it.
	auditLogVariable = "TEST_AUDIT_LOG"
)

// startTimeout bounds building and starting a control plane; the first compile takes
// minutes.
const startTimeout = 20 * time.Minute

// ClusterOptions configure StartControlPlane. The zero value is good for tests.
type ClusterOptions struct {
	// Args are added to the control plane's command line.
	Args []string
	// Echo receives the control plane's progress line by line; may be nil.
	Echo func(line string)
}

// Cluster is a Kubernetes API to test against, seen as its admin.
type Cluster struct {
	// Config has no client-side rate limit. Copy it before changing it.
	Config *rest.Config
	// Kubeconfig is a file with the same content.
	Kubeconfig string
	// AuditLog is the API server's audit log; empty when the cluster is not ours and
	// TEST_AUDIT_LOG does not name it.
	AuditLog string
	// Process is the control plane; nil when the cluster is not ours.
	Process *Process

	Client  *kubernetes.Clientset
	Dynamic *dynamic.DynamicClient
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	// signer signs tokens of service accounts, see Resign; nil when the cluster is not ours.
	signer *ecdsa.PrivateKey
}

// ControlPlane returns the cluster that all tests of this process share. Each test has namespaces of its own. Main, or
// Shutdown, ends it.
func ControlPlane(t testing.TB) *Cluster {
	t.Helper()
	c, err := sharedCluster()
	if err != nil {
		t.Fatalf("control plane: %v", err)
	}
	return c
}

var sharedCluster = sync.OnceValues(func() (*Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return StartControlPlane(ctx, ClusterOptions{})
})

// StartControlPlane uses the cluster of TEST_KUBECONFIG or builds and starts one of its own, which ends with Stop, with
// Shutdown or with this process.
func StartControlPlane(ctx context.Context, o ClusterOptions) (*Cluster, error) {
	if file := os.Getenv(kubeconfigVariable); file != "" {
		c := &Cluster{Kubeconfig: file, AuditLog: os.Getenv(auditLogVariable)}
		return c, c.connect()
	}
	program, err := ControlPlaneProgram(ctx)
	if err != nil {
		return nil, err
	}
	out, err := TempDir("cluster")
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		Kubeconfig: filepath.Join(out, "kubeconfig"),
		AuditLog:   filepath.Join(out, "audit.log"),
	}
	signer, err := c.newSigner(out)
	if err != nil {
		return nil, err
	}
	c.Process, err = Start(Command{
		Path: program,
		Args: append([]string{"--kubeconfig-out", c.Kubeconfig, "--audit-log", c.AuditLog, "--apiserver-flag", signer}, o.Args...),
		// Not SIGKILL: the control plane removes its data on SIGTERM.
		DeathSignal: syscall.SIGTERM,
	})
	if err != nil {
		return nil, err
	}
	_, err = c.Process.WaitLog(ctx, func(line string) bool {
		if o.Echo != nil {
			o.Echo(line)
		}
		return strings.HasPrefix(line, "ready ")
	})
	if err == nil {
		err = c.connect()
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// ControlPlaneProgram builds cmd/controlplane and returns its path.
func ControlPlaneProgram(ctx context.Context) (string, error) {
	dir, err := ModuleDir()
	if err != nil {
		return "", err
	}
	return buildInto(ctx, dir, "./cmd/controlplane", false)
}

// Stop ends a control plane that StartControlPlane started; it leaves any other cluster alone.
func (c *Cluster) Stop() error {
	if c.Process == nil {
		return nil
	}
	return c.Process.Terminate(endTimeout)
}

func (c *Cluster) connect() (err error) {
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	c.Config.QPS, c.Config.Burst = -1, 0
	c.Config.WarningHandler = rest.NoWarnings{}
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return err
	}
	if c.Dynamic, err = dynamic.NewForConfig(c.Config); err != nil {
		return err
	}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Client.Discovery()))
	return nil
}
