package provider

import (
	"slices"
	"strings"

	"golang.org/x/time/rate"
)

// Limit is the rate of messages per second that a destination accepts, and the burst. A Rate of 0 means no limit.
type Limit struct {
	Rate  rate.Limit
	Burst int
}

// Limited is a Sender whose vendor publishes a limit. That limit applies where the Provider names none.
type Limited interface {
	// Limit returns the limit of the vendor's own hosts, and no limit for any other host.
	Limit() Limit
}

// Limit returns the limit of the address's host, no limit if its vendor publishes none.
func (c *Client) Limit() Limit {
	if c.options.Limit == nil {
		return Limit{}
	}
	return c.options.Limit(c.address.Hostname())
}

// On reports whether the address's host is Within a vendor's domains.
func (c *Client) On(domains ...string) bool { return Within(c.address.Hostname(), domains...) }

// Within reports whether a host is one of the domains or below one.
func Within(host string, domains ...string) bool {
	host = "." + strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.ContainsFunc(domains, func(domain string) bool { return strings.HasSuffix(host, "."+domain) })
}

// LimitOn returns a ClientOptions.Limit that is l for hosts Within the domains, and no limit for any other host.
func LimitOn(l Limit, domains ...string) func(host string) Limit {
	return func(host string) Limit {
		if Within(host, domains...) {
			return l
		}
		return Limit{}
	}
}
