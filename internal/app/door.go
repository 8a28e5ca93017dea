package app

import (
	"errors"
	"fmt"
	"math"
	"net/netip"

	"notifier/internal/receiver"
)

// The burst of a budget whose flag sets only the rate: what comes in so many seconds may come at once.
const (
	failureSeconds  = 10
	deliverySeconds = 5
)

func (o Options) validateDoor(bad badFlag) {
	if _, err := parseProxies(o.TrustedProxies); err != nil {
		bad("trusted-proxies", "%v; it takes CIDRs such as 10.0.0.0/8", err)
	}
	if o.MaxInFlight < 0 {
		bad("max-in-flight", "%d is negative: use 0 for no limit", o.MaxInFlight)
	}
	if o.MaxBodiesInFlight != 0 && o.MaxBodiesInFlight < receiver.MaxBody {
		bad("max-body-bytes-in-flight", "%d is less than one body of %d bytes: use 0 for no limit", o.MaxBodiesInFlight, receiver.MaxBody)
	}
	switch {
	case o.TLSCertFile == "" && o.TLSKeyFile != "":
		bad("tls-cert-file", "is required with --tls-key-file")
	case o.TLSCertFile != "" && o.TLSKeyFile == "":
		bad("tls-key-file", "is required with --tls-cert-file")
	}
}

// limits are those of the webhook door.
func (o Options) limits() receiver.Limits {
	l := receiver.DefaultLimits()
	l.Unknown = budget(o.ClientFailureRate, failureSeconds)
	l.Failure = budget(o.PathFailureRate, failureSeconds)
	l.Receiver = receiver.Budget{Rate: o.ReceiverRate, Burst: o.ReceiverBurst}
	l.Tenant = budget(o.NamespaceRate, deliverySeconds)
	l.Requests = receiver.RequestCaps(o.MaxInFlight)
	l.Bodies = receiver.BodyCaps(o.MaxBodiesInFlight)
	return l
}

// maxBurst keeps a burst within an int, whatever the rate.
const maxBurst = 1 << 30

func budget(rate, seconds float64) receiver.Budget {
	return receiver.Budget{Rate: rate, Burst: int(math.Ceil(min(rate*seconds, maxBurst)))}
}

// parseProxies reads the networks of trusted proxies.
func parseProxies(cidrs []string) (receiver.Proxies, error) {
	var proxies receiver.Proxies
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
