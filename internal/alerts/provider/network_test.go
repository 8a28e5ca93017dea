package provider

import (
	"errors"
	"net/netip"
	"testing"
)

// Fails when IPv4-mapped addresses are not unmapped, zones are kept, or the address inside a tunnel's address goes unchecked.
func TestNetworkDeniesTheMachineItsLinkAndItsCloud(t *testing.T) {
	for address, allowed := range map[string]bool{
		"10.0.0.1": true, "192.168.1.1": true, "172.16.0.1": true, "100.64.0.1": true, "198.18.0.1": true, "203.0.113.7": true,
		"fd00::1": true, "2001:db8::1": true, "240.0.0.1": true, "::ffff:10.0.0.1": true, "64:ff9b::a00:1": true,
		"2002:a00:1::": true, "64:ff9b::808:808": true, "100.100.100.201": true,

		"127.0.0.1": false, "127.255.255.255": false, "0.0.0.0": false, "0.1.2.3": false, "169.254.0.1": false,
		"224.0.0.1": false, "239.1.1.1": false, "255.255.255.255": false, "100.100.100.200": false, "168.63.129.16": false,
		"192.0.0.192": false, "::": false, "::1": false, "::1%lo": false, "fe80::1": false, "fe80::1%eth0": false, "febf::1": false,
		"fec0::1": false, "ff02::1": false, "ff05::2": false, "fd00:ec2::254": false, "fd00:ec2::23": false, "fd20:ce::254": false,
		"fd00:42::42": false, "fd00:c1::a9fe:a9fe": false, "fd00:a9fe:a9fe::1": false, "fd00:100::100:200": false,
		"::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::127.0.0.1": false,
		"::ffff:0:7f00:1": false, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false,
		"64:ff9b:1:7f00:0:100::": false, "2002:7f00:1::1": false, "2002:a9fe:a9fe::": false, "2001:0:7f00:1::": false,
		"2001:0:102:304::5601:5601": false, "2001:0:102:304::80ff:fffe": false, "fd12::5efe:7f00:1": false,
		"2001:db8::200:5efe:a9fe:a9fe": false,
	} {
		err := Network{}.check(netip.MustParseAddr(address))
		if allowed && err != nil {
			t.Errorf("%s is denied", address)
		}
		if !allowed && !errors.Is(err, ErrDenied) {
			t.Errorf("%s is allowed", address)
		}
	}
	if err := (Network{}).check(netip.Addr{}); err == nil {
		t.Error("no address at all is allowed")
	}
}

func TestAllowOpensWhatItNamesInEveryNotationAndNoMore(t *testing.T) {
	n, err := ParseNetwork([]string{"127.0.0.0/8", " 169.254.7.7", "fd00:ec2::253/127", "::1"}, false)
	if err != nil {
		t.Fatal(err)
	}
	for address, allowed := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::ffff:127.0.0.1": true, "64:ff9b::7f00:1": true, "2002:7f00:1::": true,
		"169.254.7.7": true, "fd00:ec2::252": true, "fd00:ec2::253": true, "::1": true,
		"169.254.7.8": false, "fd00:ec2::254": false, "::": false, "0.0.0.0": false,
		"2001:0:7f00:1::5601:5601": false, // the server's address is open, the client's 169.254.169.254 is not
	} {
		if err := n.check(netip.MustParseAddr(address)); (err == nil) != allowed {
			t.Errorf("%s: %v, want allowed to be %v", address, err, allowed)
		}
	}
}

// Fails when ParseNetwork ignores the process's interfaces.
func TestOwnAddressesAreDenied(t *testing.T) {
	n, err := ParseNetwork(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(n.own) == 0 {
		t.Fatal("no own addresses, not even the loopback's")
	}
	n.own = append(n.own, netip.MustParseAddr("10.1.2.3"))
	for _, address := range []string{"10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203"} {
		if n.check(netip.MustParseAddr(address)) == nil {
			t.Errorf("%s is allowed", address)
		}
	}
	n.Allow = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	if err := n.check(netip.MustParseAddr("10.1.2.3")); err != nil {
		t.Error("an own address that is opened stays denied")
	}
}

func TestParseNetworkNamesWhatIsNoCIDR(t *testing.T) {
	for _, s := range []string{"", "localhost", "127.0.0.0/33", "::ffff:127.0.0.0/104", "fe80::1%eth0", "10.0.0.0-10.0.0.9"} {
		if _, err := ParseNetwork([]string{s}, false); err == nil {
			t.Errorf("%q was taken for a CIDR", s)
		}
	}
}
