package provider

import (
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxAddress is the longest address that a Provider may have, in bytes. The API's documentation states it.
const maxAddress = 2048

// ErrNoAddress means that a destination has no address.
var ErrNoAddress = errors.New("address is empty")

// TrimAddress returns an address without the space around it, or an error if it is empty or too long.
func TrimAddress(address string) (string, error) {
	address = strings.TrimSpace(address)
	switch {
	case address == "":
		return "", ErrNoAddress
	case len(address) > maxAddress:
		return "", errors.New("address is longer than " + strconv.Itoa(maxAddress) + " characters")
	}
	return address, nil
}

// ParseAddress parses the URL of a destination or a proxy and refuses every fault that shows before its host is resolved. The errors
// never quote the address.
func (n Network) ParseAddress(address string, schemes ...string) (*url.URL, error) {
	address, err := TrimAddress(address)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" {
		return nil, errors.New("address is not a valid URL")
	}
	if !slices.Contains(schemes, u.Scheme) {
		return nil, errors.New("address has another scheme than " + strings.Join(schemes, " or ") + ": begin it with " + schemes[0] + ": and two slashes")
	}
	if p := u.Port(); p != "" {
		if v, err := strconv.ParseUint(p, 10, 16); err != nil || v == 0 {
			return nil, errors.New("address has an invalid port")
		}
	}
	if err := n.checkLiteral(u.Hostname()); err != nil {
		return nil, err
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// checkLiteral refuses a host that is a forbidden IP address. It also refuses a host that some resolvers, proxies or libraries read as
// an address and others as a name.
func (n Network) checkLiteral(host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		return n.check(addr)
	}
	for i := range len(host) {
		c := host[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_') {
			return errors.New("address has an invalid host (names outside ASCII are written in their xn-- form)")
		}
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	if slices.Contains(labels, "") || len(host) > 253 {
		return errors.New("address has an invalid host")
	}
	// 127.1, 0x7f.1, 2130706433 and 127.0.0.1. with a final dot all mean the loopback to some readers. The URL standard calls a host
	// numeric by its last label, and no top-level domain looks like a number.
	if last := strings.ToLower(labels[len(labels)-1]); numeric(last) {
		return errors.New("address has a host that is neither a name nor an IP address in its usual form")
	}
	return nil
}

// numeric reports whether a label consists of decimal, octal or hexadecimal digits as C's inet_aton reads them.
func numeric(label string) bool {
	digits := "0123456789"
	if rest, ok := strings.CutPrefix(label, "0x"); ok {
		label, digits = rest, "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}
