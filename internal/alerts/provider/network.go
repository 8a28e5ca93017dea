package provider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrDenied means that an address may not be reached. Its text is safe for the tenant.
var ErrDenied = errors.New("destination address is not allowed")

// Network decides which addresses tenants' destinations may have. The zero value is the default: all addresses but those of the
// machine, its link and its cloud. Private ranges are reachable, since destinations inside the cluster are common.
type Network struct {
	// Allow are addresses that may be reached although they are denied by default.
	Allow []netip.Prefix
	// EnvironmentProxy makes destinations without a proxy of their own use the proxy of HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
	EnvironmentProxy bool
	// Resolver replaces the system's resolver.
	Resolver *net.Resolver

	// own are the addresses of this process's interfaces: to reach them is to reach the loopback by another name.
	own []netip.Addr
}

// ParseNetwork parses the CIDRs of --allow-destinations. A bare address means itself alone. Unlike the zero Network, the result also
// denies this process's own addresses.
func ParseNetwork(allow []string, environmentProxy bool) (Network, error) {
	n := Network{EnvironmentProxy: environmentProxy}
	for _, s := range allow {
		prefix, err := parsePrefix(strings.TrimSpace(s))
		if err != nil {
			return Network{}, err
		}
		n.Allow = append(n.Allow, prefix)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return Network{}, fmt.Errorf("list own addresses: %w", err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			n.own = append(n.own, p.Addr().Unmap())
		}
	}
	return n, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is not a CIDR such as 127.0.0.0/8 or fd00::/8", s)
	}
	return p.Masked(), nil
}

// denied are the addresses that no destination may have unless Allow contains them.
var denied = prefixes(
	"0.0.0.0/8", "::/128", // unspecified: the own machine
	"127.0.0.0/8", "::1/128", // loopback
	"169.254.0.0/16", "fe80::/10", "fec0::/10", // link-local (with most clouds' metadata service), site-local
	"224.0.0.0/4", "ff00::/8", "255.255.255.255/32", // multicast, broadcast
	"fd00:ec2::/32",                               // EC2 services over IPv6, metadata at ::254
	"fd20:ce::/32",                                // Google metadata over IPv6
	"fd00:42::42/128",                             // Scaleway metadata over IPv6
	"fd00:a9fe:a9fe::1/128",                       // Akamai metadata over IPv6
	"100.100.100.200/32", "fd00:100::100:200/128", // Alibaba metadata
	"168.63.129.16/32",                         // Azure wire server
	"192.0.0.192/32", "fd00:c1::a9fe:a9fe/128", // Oracle metadata
	"64:ff9b:1::/48", // NAT64 of local use: the operator chooses where the IPv4 address is in it
)

func prefixes(cidrs ...string) []netip.Prefix {
	ps := make([]netip.Prefix, len(cidrs))
	for i, s := range cidrs {
		ps[i] = netip.MustParsePrefix(s)
	}
	return ps
}

// check returns ErrDenied for an address that may not be reached.
func (n Network) check(addr netip.Addr) error {
	// A prefix contains no address that has a zone.
	addr = addr.WithZone("").Unmap()
	contains := func(p netip.Prefix) bool { return p.Contains(addr) }
	if slices.ContainsFunc(n.Allow, contains) {
		return nil
	}
	if !addr.IsValid() || slices.ContainsFunc(denied, contains) || slices.Contains(n.own, addr) {
		return ErrDenied
	}
	for _, v4 := range embedded(addr) {
		if err := n.check(v4); err != nil {
			return err
		}
	}
	return nil
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
	compatible = netip.MustParsePrefix("::/96")
	translated = netip.MustParsePrefix("::ffff:0:0:0/96")
)

// embedded returns the IPv4 addresses that a gateway or tunnel would reach by addr.
func embedded(addr netip.Addr) []netip.Addr {
	if !addr.Is6() {
		return nil
	}
	b := addr.As16()
	v4 := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(b[i : i+4])) }
	switch {
	case nat64.Contains(addr), compatible.Contains(addr), translated.Contains(addr):
		return []netip.Addr{v4(12)}
	case sixToFour.Contains(addr):
		return []netip.Addr{v4(2)}
	case teredo.Contains(addr):
		for i := 12; i < 16; i++ { // the client's address is stored inverted
			b[i] ^= 0xff
		}
		return []netip.Addr{v4(4), v4(12)}
	case b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP, under any prefix
		return []netip.Addr{v4(12)}
	}
	return nil
}

// control refuses a connection to an address that may not be reached. It is called with the address about to be dialled, after all
// resolving, so a name that changes its answer between a check and the dialling gains nothing.
func (n Network) control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return ErrDenied
	}
	return n.check(ap.Addr())
}

// lookupTime bounds the lookup of a name that perhaps only a proxy knows.
const lookupTime = 3 * time.Second

// checkNamed checks a host as far as its text alone shows its address. By RFC 6761 localhost always means the loopback.
func (n Network) checkNamed(host string) error {
	if err := n.checkLiteral(host); err != nil {
		return err
	}
	if name := strings.TrimSuffix(strings.ToLower(host), "."); name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return n.check(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return nil
}

// checkHost checks every address of a host that a proxy will dial in our place. A name without an address here passes.
func (n Network) checkHost(ctx context.Context, host string) error {
	if err := n.checkNamed(host); err != nil {
		return err
	}
	resolver := n.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	lookup, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	addrs, err := resolver.LookupNetIP(lookup, "ip", host)
	if err != nil {
		return ctx.Err()
	}
	for _, addr := range addrs {
		if err := n.check(addr); err != nil {
			return err
		}
	}
	return nil
}
