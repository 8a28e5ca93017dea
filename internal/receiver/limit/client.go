package limit

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// forwardedFor is the header to which each proxy appends the address of its peer.
const forwardedFor = "X-Forwarded-For"

// MaxAddresses bounds the client addresses that a budget remembers; the least recently used is evicted.
const MaxAddresses = 8192

// Proxies are the networks of the proxies in front of the handler. Only they are trusted to name a request's origin.
type Proxies []netip.Prefix

// trust reports whether the address is a proxy's.
func (p Proxies) trust(a netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(a) })
}

// Client returns the sender of the request as a key of budgets: the connection's peer, or, if that is a proxy, the address that the proxies
// name. Each proxy appends the address of its peer, so the client is the last address that is not a proxy's. Entries before it are the
// client's own and not trusted. An entry that is no address ends the search: the proxy that added it is the client.
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

// Peer returns the whole address of the connection's peer. It is a key of budgets for senders inside the cluster: with IPv6 the Pods of a
// node share a /64, and none of them has all of it.
func Peer(r *http.Request) netip.Addr {
	a, _ := address(r.RemoteAddr)
	return a
}

// cutLast cuts the last entry off a list with commas.
func cutLast(list string) (rest, entry string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return "", list, false
	}
	return list[:i], list[i+1:], true
}

// address parses an address with or without a port, an IPv6 address with or without brackets. The result has no zone, and an IPv4 address
// in IPv6 becomes IPv4, so that networks contain it.
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

// AddressKey returns the client of an address: an IPv4 address, or an IPv6 /64, since a client with one address of a /64 has all of them.
func AddressKey(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}
