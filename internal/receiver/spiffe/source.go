package spiffe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
	"golang.org/x/time/rate"

	"notifier/internal/event"
	"notifier/internal/fair"
)

const (
	// retryAfter is the time after which a Workload API is asked again that has ended the stream for good.
	retryAfter = 5 * time.Second
	// logInterval is the least time between two lines about the same: any client can be refused at any rate.
	logInterval = time.Minute
	// maxLogged bounds a text of a client's certificate in the log, in bytes.
	maxLogged = 256
	// maxChain bounds the certificates of a client: its own, and those of authorities between it and a trusted one. Anyone can send some that
	// crypto/x509 checks in every order, a hundred signatures at most, which takes a quarter of a second; with this many it is 15.
	maxChain = 4
)

// ValidateAddress returns an error unless an address of the Workload API is of the form "unix:///path" or "tcp://<IP address>:port".
func ValidateAddress(address string) error {
	if path, ok := strings.CutPrefix(address, "unix://"); ok && !strings.HasPrefix(path, "/") {
		return fmt.Errorf("%q: a path begins with a slash, as in unix:///run/api.sock", address) // gRPC takes it for a host
	}
	return workloadapi.ValidateAddress(address)
}

// Source has the X509-SVID of the process and the certificate authorities of the trust domains that it knows.
type Source struct {
	address string
	log     *slog.Logger
	refused *prometheus.CounterVec

	// current is nil until the Workload API has answered.
	current  atomic.Pointer[workloadapi.X509Context]
	failures rate.Sometimes
}

// New returns a Source that follows the Workload API at an address while Run runs.
func New(address string, log *slog.Logger, registerer prometheus.Registerer) *Source {
	with := promauto.With(registerer)
	s := &Source{
		address: address, log: log, failures: rate.Sometimes{Interval: logInterval},
		refused: with.NewCounterVec(prometheus.CounterOpts{
			Name: "notifier_spiffe_refused_total",
			Help: "Connections that were closed because the client's X509-SVID is not valid, or not that of a peer that may connect.",
		}, []string{"listener"}),
	}
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "notifier_spiffe_svid_expiry_timestamp_seconds",
		Help: "When the X509-SVID of the process expires; 0 without one.",
	}, func() float64 {
		if c := s.current.Load(); c != nil {
			return float64(c.DefaultSVID().Certificates[0].NotAfter.Unix())
		}
		return 0
	})
	return s
}

// Run follows the Workload API until ctx ends.
func (s *Source) Run(ctx context.Context) error {
	w := watcher{s, ctx.Err}
	for ctx.Err() == nil {
		// It tries again by itself, but not after every answer.
		w.OnX509ContextWatchError(workloadapi.WatchX509Context(ctx, w, workloadapi.WithAddr(s.address)))
		_ = fair.Sleep(ctx, retryAfter) // the loop sees the end
	}
	return nil
}

// watcher receives the updates of a Source until ended returns an error.
type watcher struct {
	*Source
	ended func() error
}

// OnX509ContextUpdate implements workloadapi.X509ContextWatcher.
func (w watcher) OnX509ContextUpdate(c *workloadapi.X509Context) {
	w.current.Store(c)
	svid := c.DefaultSVID()
	w.log.Info("the process has an X509-SVID", "id", svid.ID.String(), "expires", svid.Certificates[0].NotAfter)
}

// OnX509ContextWatchError implements workloadapi.X509ContextWatcher.
func (w watcher) OnX509ContextWatchError(err error) {
	if w.ended() != nil {
		return
	}
	w.failures.Do(func() {
		w.log.Error("the SPIFFE Workload API gives no X509-SVID; one that the process has is used until it expires",
			"address", w.address, "error", err)
	})
}

// errNoSVID means that the Workload API has not answered yet.
var errNoSVID = errors.New("the process has no X509-SVID yet: the SPIFFE Workload API has not given one")

// Ready returns nil if the process has an X509-SVID that has not expired, and an authority of its own trust domain.
func (s *Source) Ready() error {
	own, err := s.GetX509SVID()
	if err != nil {
		return err
	}
	domain := own.ID.TrustDomain()
	bundle, err := s.GetX509BundleForTrustDomain(domain)
	if err == nil && bundle.Empty() {
		err = fmt.Errorf("the SPIFFE Workload API has given no authority of the trust domain %q, so that its clients are refused", domain.Name())
	}
	return err
}

// GetX509SVID implements x509svid.Source.
func (s *Source) GetX509SVID() (*x509svid.SVID, error) {
	c := s.current.Load()
	if c == nil {
		return nil, errNoSVID
	}
	svid := c.DefaultSVID()
	if end := svid.Certificates[0].NotAfter; time.Now().After(end) {
		return nil, fmt.Errorf("the X509-SVID of the process expired at %s, and the SPIFFE Workload API has given no other", end.Format(time.RFC3339))
	}
	return svid, nil
}

// GetX509BundleForTrustDomain implements x509bundle.Source.
func (s *Source) GetX509BundleForTrustDomain(domain spiffeid.TrustDomain) (*x509bundle.Bundle, error) {
	c := s.current.Load()
	if c == nil {
		return nil, errNoSVID
	}
	return c.Bundles.GetX509BundleForTrustDomain(domain)
}

// Config returns the TLS configuration of a listener to which only these peers may connect. The name is a label of the metrics.
func (s *Source) Config(listener string, peers Peers) *tls.Config {
	refused, lines := s.refused.WithLabelValues(listener), rate.Sometimes{Interval: logInterval}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: tlsconfig.GetCertificate(s),
		ClientAuth:     tls.RequireAnyClientCert, // VerifyConnection verifies it
		VerifyConnection: func(c tls.ConnectionState) error {
			id, err := s.verify(c.PeerCertificates, peers)
			if err != nil {
				refused.Inc()
				lines.Do(func() {
					s.log.Warn("a client's X509-SVID was refused", "listener", listener,
						"id", event.Truncate(id.String(), maxLogged, "..."), "error", event.Truncate(err.Error(), maxLogged, "..."))
				})
			}
			return err
		},
		// A session is not resumed: each connection shows anew that the client has the key.
		SessionTicketsDisabled: true,
	}
}

// verify returns the ID that a client's certificates claim, and an error if they are no valid X509-SVID or not that of a peer.
func (s *Source) verify(certs []*x509.Certificate, peers Peers) (id spiffeid.ID, err error) {
	if len(certs) > maxChain {
		id, _ = x509svid.IDFromCert(certs[0]) // without an ID it is refused as well
		return id, fmt.Errorf("its chain has %d certificates, more than %d", len(certs), maxChain)
	}
	if id, _, err = x509svid.Verify(certs, s); err != nil {
		return id, err
	}
	own, err := s.GetX509SVID()
	if err != nil {
		return id, err
	}
	if !peers.include(id, own.ID.TrustDomain()) {
		return id, errors.New("this ID may not connect")
	}
	return id, nil
}
