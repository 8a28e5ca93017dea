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

// On reports whether the address's host is Within a vendor's domains.
func (c *Client) On(domains ...string) bool { return Within(c.address.Hostname(), domains...) }

// Within reports whether a host is one of the domains or below one.
func Within(host string, domains ...string) bool {
	host = "." + strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.ContainsFunc(domains, func(domain string) bool { return strings.HasSuffix(host, "."+domain) })
}

// LimitOn returns l where the address is On one of the domains, else no limit.
func (c *Client) LimitOn(l Limit, domains ...string) Limit {
	if c.On(domains...) {
		return l
	}
	return Limit{}
}
