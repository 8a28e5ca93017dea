package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"notifier/internal/receiver"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/server"
	"notifier/internal/receiver/spiffe"
)

// listener is one address of the process and the handler of its requests.
type listener struct {
	name, addr string
	handler    http.Handler
	// cert and key are the files of its certificate, empty for none. peers are the SPIFFE IDs of its clients, empty for any client.
	cert, key string
	peers     []string
	// inside says that its clients are inside the cluster.
	inside bool
	// streams are server.Options.Streams, 0 for the default.
	streams int
}

// listeners returns the listeners of the process without the API's. Each answers only its own requests, so that each port can be opened to
// its own clients.
func listeners(o Options, webhooks, events http.Handler, registry prometheus.Gatherer, h *health) []listener {
	metrics := http.NewServeMux()
	metrics.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	all := []listener{
		{name: "webhooks", addr: o.ReceiverAddr, handler: webhooks, cert: o.TLSCertFile, key: o.TLSKeyFile, peers: o.AuthorizedReceivers},
		{name: "events", addr: o.EventsAddr, handler: events, inside: true, peers: o.AuthorizedNotifiers},
		{name: "metrics", addr: o.MetricsAddr, handler: metrics, inside: true},
		{name: "health", addr: o.HealthAddr, handler: h.handler(), inside: true},
	}
	if o.PprofAddr != "" {
		all = append(all, listener{name: "pprof", addr: o.PprofAddr, handler: profiles(), inside: true})
	}
	return all
}

// tls returns the TLS configuration of a listener, nil for none. Run follows the files of its certificate.
func (a *App) tls(l listener, log *slog.Logger) (*tls.Config, error) {
	if len(l.peers) > 0 {
		peers, err := spiffe.ParsePeers(l.peers)
		if err != nil {
			return nil, fmt.Errorf("clients of the listener for %s: %w", l.name, err)
		}
		return a.svid.Config(l.name, peers), nil
	}
	if l.cert == "" {
		return nil, nil
	}
	c, err := server.NewCertificate(l.name, l.cert, l.key, log, a.registry)
	if err != nil {
		return nil, fmt.Errorf("certificate of the listener for %s: %w", l.name, err)
	}
	a.listeners = append(a.listeners, part{"certificate of " + l.name, c.Run})
	return c.Config(), nil
}

// open makes the server of a listener, and listens.
func (a *App) open(ctx context.Context, l listener, log *slog.Logger) error {
	o := server.DefaultOptions()
	o.Name, o.Addr, o.Handler, o.Drain, o.Log, o.Registerer = l.name, l.addr, l.handler, listenersDrain, log, a.registry
	o.WholeAddresses, o.Streams = l.inside, cmp.Or(l.streams, o.Streams)
	var err error
	if o.TLS, err = a.tls(l, log); err != nil {
		return err
	}
	s, err := server.New(o)
	if err != nil {
		return err
	}
	if err := s.Listen(ctx); err != nil {
		return err
	}
	a.listeners = append(a.listeners, part{l.name, s.Run})
	return nil
}

// The burst of a budget whose flag sets only the rate: the requests of this many seconds may arrive at once.
const (
	failureSeconds  = 10
	deliverySeconds = 5
)

func (o Options) validateReceiver(bad badFlag) {
	if _, err := parseProxies(o.TrustedProxies); err != nil {
		bad("trusted-proxies", "%v; it takes CIDRs such as 10.0.0.0/8", err)
	}
	if o.MaxBodiesInFlight != 0 && o.MaxBodiesInFlight < limit.MaxBody {
		bad("max-body-bytes-in-flight", "%d is less than one body of %d bytes: use 0 for no limit", o.MaxBodiesInFlight, limit.MaxBody)
	}
	validatePair(bad, "", o.TLSCertFile, o.TLSKeyFile)
}

// validatePair reports a missing one of two files, whose flags have a prefix.
func validatePair(bad badFlag, prefix, cert, key string) {
	switch {
	case cert == "" && key != "":
		bad(prefix+"tls-cert-file", "is required with --%stls-key-file", prefix)
	case cert != "" && key == "":
		bad(prefix+"tls-key-file", "is required with --%stls-cert-file", prefix)
	}
}

// limits returns those of the webhook endpoint.
func (o Options) limits() receiver.Limits {
	l := receiver.DefaultLimits()
	l.Unknown = budget(o.ClientFailureRate, failureSeconds)
	l.Failure = budget(o.PathFailureRate, failureSeconds)
	l.Receiver = limit.Budget{Rate: o.ReceiverRate, Burst: o.ReceiverBurst}
	l.Tenant = budget(o.NamespaceRate, deliverySeconds)
	l.Requests = receiver.RequestCaps(o.MaxInFlight)
	l.Bodies = receiver.BodyCaps(o.MaxBodiesInFlight)
	return l
}

// maxBurst keeps a burst of any rate within an int.
const maxBurst = 1 << 30

func budget(rate, seconds float64) limit.Budget {
	return limit.Budget{Rate: rate, Burst: int(math.Ceil(min(rate*seconds, maxBurst)))}
}

// parseProxies parses the networks of trusted proxies.
func parseProxies(cidrs []string) (limit.Proxies, error) {
	var proxies limit.Proxies
	for _, cidr := range cidrs {
		network, err := netip.ParsePrefix(cidr)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q is not a network", cidr)
		case network.Addr().Is4In6():
			return nil, fmt.Errorf("%q is IPv4 in the notation of IPv6", cidr)
		case network.Bits() == 0:
			return nil, errors.New("every address would be trusted, and so every client to say who it is")
		}
		proxies = append(proxies, network.Masked())
	}
	return proxies, nil
}
