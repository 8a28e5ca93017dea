package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"notifier/internal/api/client"
)

const (
	// serverVariable is the environment variable for --server.
	serverVariable = "NOTIFIER_SERVER"
	// dialTimeout bounds a TLS handshake, answerTimeout the time until an answer begins.
	dialTimeout   = 10 * time.Second
	answerTimeout = 30 * time.Second
)

// connection selects the API to call, and the identity of the caller.
type connection struct {
	kubeconfig, context, namespace string
	server, serverCA               string
	serviceAccount                 string
	audiences                      []string
	install                        string

	loaded clientcmd.ClientConfig
	// address is the address of the API, and token returns the caller's token.
	address string
	token   func(context.Context) (string, error)
	// account is the service account of a token that was requested, as namespace/name.
	account string
}

func (c *connection) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig file; the default is $KUBECONFIG, then ~/.kube/config")
	fs.StringVar(&c.context, "context", "", "context of the kubeconfig; the default is its current one")
	fs.StringVarP(&c.namespace, "namespace", "n", "", "namespace; the default is the context's")
	fs.StringVar(&c.server, "server", os.Getenv(serverVariable),
		"address of notifier's API, such as https://notifier.example.com; the default is $"+serverVariable+", else a port-forward to it")
	fs.StringVar(&c.serverCA, "server-ca", "", "file with the certificate authorities of --server; the default is the system's")
	fs.StringVar(&c.serviceAccount, "service-account", "",
		"service account of the namespace to ask as; where the kubeconfig has no token but a certificate the default is \"default\"")
	fs.StringSliceVar(&c.audiences, "audience", nil,
		"audience of that service account's token, if the administrator has set --api-audiences; the default is that of the API server")
	fs.StringVar(&c.install, "install-namespace", "", "namespace of notifier, for the port-forward; the default is that of "+
		strings.Join(installs, " and ")+" in which it runs with its rights")
}

// check returns an error for flags that would have no effect together.
func (c *connection) check() error {
	switch {
	case c.server == "" && c.serverCA != "":
		return fmt.Errorf("--server-ca: it is for a server that --server or $%s names", serverVariable)
	case c.server != "" && c.install != "":
		return fmt.Errorf("--install-namespace: it is for the port-forward, and --server or $%s names a server: --server= leaves that out", serverVariable)
	}
	return nil
}

// config returns the kubeconfig, narrowed by the flags.
func (c *connection) config() clientcmd.ClientConfig {
	if c.loaded == nil {
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath = c.kubeconfig
		overrides := &clientcmd.ConfigOverrides{CurrentContext: c.context}
		overrides.Context.Namespace = c.namespace
		c.loaded = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	}
	return c.loaded
}

// ns returns the namespace of the command.
func (c *connection) ns() (string, error) {
	namespace, _, err := c.config().Namespace()
	if err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	return namespace, nil
}

// open returns a client of the API. close releases its resources. open has lost called when the connection ends and must not be used any more.
func (c *connection) open(ctx context.Context, lost func(error)) (api *client.Client, close func(), err error) {
	kube, err := c.config().ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, nil, errors.New("there is no kubeconfig: give one with --kubeconfig or $KUBECONFIG")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("kubeconfig: %w", err)
	}
	server, done := c.server, func() {}
	if server == "" {
		if server, done, err = forward(ctx, kube, c.install, lost); err != nil {
			return nil, nil, fmt.Errorf("%w; give the address of notifier's API with --server or $%s", err, serverVariable)
		}
	}
	transport, err := c.transport(ctx, kube, server)
	if err != nil {
		done()
		return nil, nil, err
	}
	if api, err = client.New(server, transport); err != nil {
		done()
		return nil, nil, fmt.Errorf("--server: %w", err)
	}
	c.address = server
	return api, done, nil
}

// transport returns a transport that sends requests to notifier's API with the caller's token.
func (c *connection) transport(ctx context.Context, kube *rest.Config, server string) (http.RoundTripper, error) {
	if err := confidential(server); err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.serverCA != "" {
		pem, err := os.ReadFile(c.serverCA)
		if err != nil {
			return nil, fmt.Errorf("--server-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--server-ca: %s has no certificate in PEM", c.serverCA)
		}
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.TLSClientConfig, base.TLSHandshakeTimeout, base.ResponseHeaderTimeout = config, dialTimeout, answerTimeout
	return c.credentials(ctx, kube, base)
}

// confidential returns an error for a server that would receive the token in the clear.
func confidential(server string) error {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" {
		return nil // client.New reports the fault
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && addr.IsLoopback() || u.Hostname() == "localhost" {
		return nil
	}
	return errors.New("--server: your token would be sent in the clear: use https, or an address of this machine")
}
