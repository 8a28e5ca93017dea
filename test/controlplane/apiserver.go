package controlplane

import (
	"context"
	_ "embed"
	"errors"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// auditPolicy leaves out the control plane's own requests, so that the log has only those of the clients under test.
//
//go:embed audit-policy.yaml
var auditPolicy []byte

type apiServer struct {
	options options.CompletedOptions
}

func newAPIServer(ctx context.Context, o Options, keys *pki, etcd string, listener net.Listener) (*apiServer, error) {
	policy := filepath.Join(o.Dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, auditPolicy, 0o600); err != nil {
		return nil, err
	}
	s := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range s.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	err := flags.Parse(append([]string{
		"--etcd-servers=" + etcd,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		// The Service "kubernetes" may not have a loopback address as its endpoint.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--tls-cert-file=" + keys.serving.cert,
		"--tls-private-key-file=" + keys.serving.key,
		"--client-ca-file=" + keys.ca.cert,
		"--authorization-mode=RBAC",
		"--anonymous-auth=false",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + keys.serviceAccount.cert,
		"--service-account-signing-key-file=" + keys.serviceAccount.key,
		"--audit-policy-file=" + policy,
		"--audit-log-path=" + o.AuditLog,
		"--audit-log-maxsize=1000000",
		// Load tests measure the notifier and not the API server's fairness.
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=4000",
		"--max-mutating-requests-inflight=4000",
		"--profiling=false",
	}, o.APIServerFlags...))
	if err != nil {
		return nil, err
	}
	s.SecureServing.Listener = listener
	s.SecureServing.BindPort = listener.Addr().(*net.TCPAddr).Port
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	completed, err := s.Complete(ctx)
	if err != nil {
		return nil, err
	}
	return &apiServer{options: completed}, errors.Join(completed.Validate()...)
}

// run blocks until ctx ends or the server fails.
func (s *apiServer) run(ctx context.Context) error {
	return app.Run(ctx, s.options)
}
