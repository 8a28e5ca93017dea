package limit

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// forwardedFor is the header in which proxies append whom a request came to them from.
const forwardedFor = "X-Forwarded-For"

// MaxAddresses bounds the client addresses that a budget remembers; the one used longest ago is forgotten.
const MaxAddresses = 8192

// Proxies are the networks of the proxies in front of the handler. Only what they say of a request's origin is believed.
type Proxies []netip.Prefix

// trust reports whether the address is a proxy's.
func (p Proxies) trust(a netip.Addr) bool {
	for _, network := range p {
		if network.Contains(a) {
			return true
		}
	}
	return false
}

// Client is who sent the request, as budgets know it: the connection's peer, and if that is a proxy, whom the proxies name. Each
// appends the address it was asked from, so the last one that is no proxy's is the client, and what stands before it is the
// client's own invention. Behind an entry that is no address nothing can be known: the proxy that let it through answers for it.
func (p Proxies) Client(r *http.Request) netip.Addr {
	known, ok := address(r.RemoteAddr)
	if !ok {
		return netip.Addr{}
	}
	if !p.trust(known) {
		return AddressKey(known)
	}
	for _, line := range slices.Backward(r.Header[forwardedFor]) {
		for rest, more := line, true; more; {
			var entry string
			rest, entry, more = cutLast(rest)
			named, ok := address(strings.Trim(entry, " \t"))
			if !ok {
				return AddressKey(known)
			}
			known = named
			if !p.trust(known) {
				return AddressKey(known)
			}
		}
	}
	return AddressKey(known)
}

// ClientAddress is who the request's connection comes from, as budgets know it.
func ClientAddress(r *http.Request) netip.Addr { return Proxies(nil).Client(r) }

// cutLast cuts the last entry off a list with commas.
func cutLast(list string) (rest, entry string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return "", list, false
	}
	return list[:i], list[i+1:], true
}

// address reads an address with or without a port, an IPv6 one with or without brackets. It has neither zone nor another
// notation of IPv4, so that networks contain it.
func address(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	if err != nil && strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		a, err = netip.ParseAddr(s[1 : len(s)-1])
	}
	if err != nil {
		var withPort netip.AddrPort
		withPort, err = netip.ParseAddrPort(s)
		a = withPort.Addr()
	}
	return a.WithZone("").Unmap(), err == nil
}

// AddressKey is the client that an address stands for: an IPv4 address, or an IPv6 /64, since whoever has one address of a /64
// has all of them.
func AddressKey(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}
