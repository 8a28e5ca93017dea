package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"notifier/internal/fair"
)

// certificatePoll is the interval at which the files of a certificate are read again. They are small, and a read finds changes that a time
// stamp does not show, such as the swapped link of a mounted Secret.
const certificatePoll = 10 * time.Second

// expiresSoon is the time before the end of a certificate from which on the log has a line about it a day.
const expiresSoon = 7 * 24 * time.Hour

// Certificate is a certificate chain and its private key in files, which are read again when they change. A new pair that is broken, or
// half written, changes nothing: the old pair is served until the files contain a good one.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	reloads, failures prometheus.Counter

	current atomic.Pointer[tls.Certificate]
	// read is the content of the files at the last read, good or not, or the error of that read. It belongs to the caller of load:
	// NewCertificate, then Run.
	read string
}

// NewCertificate reads the pair of a listener, whose name is a label of the metrics. A bad pair is an error now, and only a line in the log
// later.
func NewCertificate(listener, certFile, keyFile string, log *slog.Logger, reg prometheus.Registerer) (*Certificate, error) {
	if log == nil {
		return nil, errors.New("certificate: no log")
	}
	with, label := promauto.With(reg), prometheus.Labels{"listener": listener}
	reloads := with.NewCounterVec(prometheus.CounterOpts{
		Name: "notifier_tls_reloads_total", ConstLabels: label,
		Help: "Changes of the certificate's files by result. After an error the certificate before is still served.",
	}, []string{"result"})
	c := &Certificate{
		certFile: certFile, keyFile: keyFile, log: log,
		reloads: reloads.WithLabelValues("ok"), failures: reloads.WithLabelValues("error"),
	}
	if _, err := c.load(); err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "notifier_tls_certificate_expiry_timestamp_seconds", ConstLabels: label,
		Help: "When the certificate that is served expires.",
	}, func() float64 { return float64(c.current.Load().Leaf.NotAfter.Unix()) })
	return c, nil
}

// Run follows the files until ctx ends.
func (c *Certificate) Run(ctx context.Context) error {
	soon := rate.Sometimes{Interval: 24 * time.Hour}
	for fair.Sleep(ctx, certificatePoll) == nil {
		switch changed, err := c.load(); {
		case !changed:
		case err != nil:
			c.failures.Inc()
			c.log.ErrorContext(ctx, "the certificate's files changed and are not good, the certificate before is still served", "error", err)
		default:
			c.reloads.Inc()
			c.log.InfoContext(ctx, "a new certificate is served", "expires", c.current.Load().Leaf.NotAfter)
		}
		if expires := c.current.Load().Leaf.NotAfter; time.Until(expires) < expiresSoon {
			soon.Do(func() {
				c.log.ErrorContext(ctx, "the served certificate has expired, or expires within a week", "expires", expires)
			})
		}
	}
	return nil
}

// load reads the files and reports whether they changed. Its error quotes nothing of them.
func (c *Certificate) load() (changed bool, err error) {
	cert, certErr := os.ReadFile(c.certFile)
	key, keyErr := os.ReadFile(c.keyFile)
	err = errors.Join(certErr, keyErr)
	read := fmt.Sprintf("%d %s%s%v", len(cert), cert, key, err)
	if read == c.read {
		return false, nil
	}
	c.read = read
	if err != nil {
		return true, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return true, err
	}
	c.current.Store(&pair)
	return true, nil
}

// Config returns the TLS configuration of a listener with the certificate.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}
