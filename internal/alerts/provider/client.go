package provider

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpproxy"
)

const (
	dialTimeout = 10 * time.Second
	idleTimeout = 90 * time.Second
	// idleConns are as many as one Provider sends at a time, so that a busy one need not dial anew.
	idleConns    = 8
	pingInterval = 15 * time.Second
	maxHeaders   = 64 << 10 // bytes of an answer's header
)

// ClientOptions is what a destination type adds to its Config.
type ClientOptions struct {
	// Header is sent with every request to the host of the address; it is for credentials that never change.
	Header http.Header
	// MaxReply is the length of the answer that the type reads, in bytes. Zero: the type does not read answers, and a
	// 2xx is a success however its body ends.
	MaxReply int
	// Word returns what may be shown of the answer that a refusal comes with, of a closed list that the type knows, or nothing. It is
	// given answers of at most MaxRefusal bytes, and nothing else of them is kept.
	Word func(answer []byte) string
	// Wait reads, of a refusal of at most MaxRefusal bytes, a limit that the vendor expresses in a way of its own. Limited makes the refusal
	// one to retry, whatever its status; wait is how long the vendor asks to wait, zero where it does not say. A Retry-After is read without it.
	Wait func(status int, header http.Header, answer []byte) (wait time.Duration, limited bool)
}

// Client is one destination's HTTP client, with connections of its own.
type Client struct {
	http    *http.Client
	base    *base
	address *url.URL
	timeout time.Duration
}

// NewClient builds the client for cfg.Address. It does not connect. The error lists all that is wrong with the Config's
// address, proxy, TLS material and timeout, quoting none of it.
func NewClient(cfg Config, o ClientOptions) (*Client, error) {
	address, addressErr := cfg.Network.parseAddress(cfg.Address, "https", "http")
	timeout, timeoutErr := cfg.timeout()
	proxy, proxyErr := cfg.proxy()
	tlsConfig, tlsErr := cfg.TLS.Config()
	if err := errors.Join(addressErr, timeoutErr, proxyErr, tlsErr); err != nil {
		return nil, err
	}
	t := &transport{
		proxy: proxy, network: cfg.Network, resolves: cfg.Proxy.Address != "",
		host: address.Host, header: o.Header, maxReply: o.MaxReply, word: o.Word, wait: o.Wait,
		namespace: cfg.Namespace, long: make(chan struct{}, 1),
	}
	own := &base{network: &t.network, proxy: proxy}
	if !cfg.TLS.none() {
		own.tls = tlsConfig
	}
	t.base = own
	return &Client{
		http: &http.Client{
			Transport: t,
			// The transport has turned a redirect into an error before this is asked; it stands should that ever change.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		base: own, address: address, timeout: timeout,
	}, nil
}

// Call lets send make one request, through a vendor's library perhaps, within the send's timeout and classifies the outcome.
// The http.Client it is given returns an error for every answer that is not 2xx, and shows every 2xx as 200 with the whole
// body at hand, so that a library's own ideas of redirects, statuses and unbounded bodies never come to bear.
func (c *Client) Call(ctx context.Context, send func(ctx context.Context, h *http.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	c.base.conns.begin()
	defer c.base.conns.end()
	if err := send(ctx, c.http); err != nil {
		return Classify(err)
	}
	return nil
}

// Address returns the URL to send to, for libraries that want it. It is a secret.
func (c *Client) Address() string { return c.address.String() }

// Host returns the address's host name without its port.
func (c *Client) Host() string { return c.address.Hostname() }

// Close drops idle connections, and those of sends under way when they end. The client stays usable; from then on a connection
// serves no longer than the sends that overlap on it.
func (c *Client) Close() error {
	c.base.close()
	return nil
}

// proxy returns the choice of the environment's proxy, nil for none.
func (n Network) proxy() func(*http.Request) (*url.URL, error) {
	if !n.EnvironmentProxy {
		return nil
	}
	choose := httpproxy.FromEnvironment().ProxyFunc()
	return func(r *http.Request) (*url.URL, error) { return choose(r.URL) }
}

// proxy returns the transport's choice of a proxy, nil for none.
func (c Config) proxy() (func(*http.Request) (*url.URL, error), error) {
	if c.Proxy.Address == "" {
		return c.Network.proxy(), nil
	}
	u, err := c.proxyURL()
	if err != nil {
		return nil, err
	}
	return http.ProxyURL(u), nil
}

// proxyURL returns the address of the Provider's proxy with its credentials.
func (c Config) proxyURL() (*url.URL, error) {
	u, err := c.Network.parseAddress(c.Proxy.Address, "http", "https", "socks5")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	if c.Proxy.Username != "" || c.Proxy.Password != "" {
		u.User = url.UserPassword(c.Proxy.Username, c.Proxy.Password)
	}
	return u, nil
}

// none reports whether there is no TLS material.
func (t TLS) none() bool { return len(t.CA)+len(t.Cert)+len(t.Key) == 0 }

func defaultTLS() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }

// Config returns the TLS of a client. Its errors quote nothing.
func (t TLS) Config() (*tls.Config, error) {
	cfg := defaultTLS()
	var errs []error
	if len(t.CA) > 0 {
		if cfg.RootCAs = poolOf(t.CA); cfg.RootCAs == nil {
			errs = append(errs, errors.New("CA holds no valid certificate"))
		}
	}
	switch {
	case len(t.Cert) > 0 && len(t.Key) > 0:
		pair, err := tls.X509KeyPair(t.Cert, t.Key)
		if err != nil {
			// The cause may quote the type of a PEM block that was found, so it stays out.
			errs = append(errs, errors.New("client certificate and key are not a valid pair"))
		}
		if key, ok := pair.PrivateKey.(*rsa.PrivateKey); ok && key.N.BitLen() > maxRSABits {
			errs = append(errs, errors.New("client key is longer than 4,096 bits"))
		}
		cfg.Certificates = []tls.Certificate{pair}
	case len(t.Cert) > 0 || len(t.Key) > 0:
		errs = append(errs, errors.New("client certificate and key come together or not at all"))
	}
	return cfg, errors.Join(errs...)
}
