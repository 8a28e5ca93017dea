package provider

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"
)

const (
	dialTimeout = 10 * time.Second
	idleTimeout = 90 * time.Second
	// idleConns is the number of sends of one Provider at a time, so that a busy Provider need not dial anew.
	idleConns    = 8
	pingInterval = 15 * time.Second
	maxHeaders   = 64 << 10 // bytes of an answer's header
	streamBuffer = 64 << 10 // bytes of an answer over HTTP/2 that are buffered
)

// ClientOptions are the options that a destination type adds to its Config.
type ClientOptions struct {
	// Login returns the header that is sent with every request to the host of the address, such as Config.Bearer. It is for credentials
	// that never change.
	Login func(Config) (http.Header, error)
	// Authorize returns the value of the header Authorization for each request to the host of the address. It is for credentials that are
	// made or requested at the time.
	Authorize func(ctx context.Context) (string, error)
	// Issuer is the client by which Authorize requests credentials, nil for none. It is closed with this one.
	Issuer *Client
	// Message returns the request that sends a notification, for a type whose Sender is its Client: one request is a send.
	Message func(c *Client, n Notification) (Request, error)
	// Outcome classifies the answer of 2xx to a Message, for a type that also refuses by such an answer.
	Outcome func(answer []byte) error
	// Limit returns the limit that the vendor publishes for a host, such as LimitOn.
	Limit func(host string) Limit
	// MaxReply is the longest answer that the type reads, in bytes. Zero means that the type reads no answers: a 2xx is then a success
	// however its body ends.
	MaxReply int
	// TakesPages means that a 2xx with a page of HTML is a success, for a type whose destination may be any server, or which reads the page.
	// Other types' destinations answer with none: it comes from a place to sign in on the way, or from a web server under a wrong address.
	TakesPages bool
	// Word returns the word that is shown of a refusal's answer, from a closed list that the type knows, or an empty string. It is
	// given answers of at most MaxRefusal bytes. Nothing else of an answer is kept.
	Word func(answer []byte) string
	// Wait reads a limit that the vendor expresses in its own way, from a refusal of at most MaxRefusal bytes. limited means that the
	// refusal is retried under every status; wait is the time that the vendor asks for, zero if it names none. Retry-After headers are
	// read without it.
	Wait func(status int, header http.Header, answer []byte) (wait time.Duration, limited bool)
	// Temporary reports whether a refusal passes by itself under a status that is final elsewhere. It is given the answer as Word is, and
	// nil for a longer one.
	Temporary func(status int, answer []byte) bool
}

// Client is the HTTP client of one destination, with connections of its own. Its parts are one object in memory: a cluster has thousands of
// Providers.
type Client struct {
	route
	// tls is nil for defaultTLS, which is then made with the transport.
	tls       *tls.Config
	conns     conns
	transport atomic.Pointer[http.Transport] // made for the first request
	// trace is in the context of each request, unless another client's is.
	trace   httptrace.ClientTrace
	address url.URL
	timeout time.Duration
	// options are without the Login, whose result header has.
	options ClientOptions
	header  []headerField
}

// headerField is a field of a header that is kept for thousands of Providers. A map of one is 400 bytes.
type headerField struct {
	name   string
	values []string
}

// NewClient returns a client for cfg.Address. It does not connect. The error lists every fault of the credentials, the address, the
// proxy, the TLS material and the timeout, and quotes none of them. TLS material of Values stands in for that of TLS.
func NewClient(cfg Config, o ClientOptions) (*Client, error) {
	var header http.Header
	var loginErr error
	if o.Login != nil {
		header, loginErr = o.Login(cfg)
	}
	if cfg.TLS.none() {
		cfg.TLS = ReadTLS(func(key string) string { return cfg.Values[key] })
	}
	address, addressErr := cfg.Network.ParseAddress(cfg.Address, "https", "http")
	timeout, timeoutErr := cfg.timeout()
	way, proxyErr := cfg.route()
	tlsConfig, tlsErr := cfg.TLS.Config()
	if err := errors.Join(loginErr, addressErr, timeoutErr, proxyErr, tlsErr); err != nil {
		return nil, err
	}
	c := &Client{route: way, address: *address, timeout: timeout, options: o}
	c.options.Login = nil
	for name, values := range header {
		c.header = append(c.header, headerField{name, values})
	}
	c.conns.namespace, c.conns.most = cfg.Namespace, sendBytes+2*int64(o.MaxReply)
	c.trace.GotConn = c.conns.got
	if !cfg.TLS.none() {
		c.tls = tlsConfig
	}
	return c, nil
}

// Call calls send, which makes requests by Do. It bounds send by the send's timeout and classifies the outcome.
func (c *Client) Call(ctx context.Context, send func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(c.traced(ctx), c.timeout)
	defer cancel()
	c.conns.begin()
	defer c.conns.end()
	if err := send(ctx); err != nil {
		return Classify(err)
	}
	return nil
}

// Close closes idle connections at once, and those of sends under way when the sends end. The client stays usable: from then on a
// connection is kept only while sends overlap on it.
func (c *Client) Close() error {
	if made := c.transport.Load(); made != nil {
		made.CloseIdleConnections()
	}
	c.conns.close()
	if c.options.Issuer != nil {
		return c.options.Issuer.Close()
	}
	return nil
}

// none reports whether there is no TLS material.
func (t TLS) none() bool { return len(t.CA)+len(t.Cert)+len(t.Key) == 0 }

func defaultTLS() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }

// Config returns the TLS configuration of a client. Its errors quote nothing.
func (t TLS) Config() (*tls.Config, error) {
	cfg := defaultTLS()
	var errs []error
	if len(t.CA) > 0 {
		var err error
		cfg.RootCAs, err = poolOf(t.CA)
		errs = append(errs, err)
	}
	switch {
	case len(t.Cert) > 0 && len(t.Key) > 0:
		pair, err := t.pair()
		errs = append(errs, err)
		cfg.Certificates = []tls.Certificate{pair}
	case len(t.Cert) > 0 || len(t.Key) > 0:
		errs = append(errs, errors.New("tls.crt and tls.key (or certFile and keyFile) come together or not at all; write both, or neither"))
	}
	return cfg, errors.Join(errs...)
}

// pair returns the client's certificate with its key.
func (t TLS) pair() (tls.Certificate, error) {
	if err := checkKeys(t.Key); err != nil {
		return tls.Certificate{}, fmt.Errorf("client key %w", err)
	}
	pair, err := tls.X509KeyPair(t.Cert, t.Key)
	if err != nil {
		// The cause may quote the type of a PEM block, so it is left out.
		return tls.Certificate{}, errors.New("tls.crt and tls.key (or certFile and keyFile) are no valid pair; write a certificate and its own key, both in PEM")
	}
	return pair, nil
}
