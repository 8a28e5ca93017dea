package limit

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// proxies are the networks of the proxies of these tests.
var proxies = Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ffff::/48")}

// from returns a request over a connection from peer, with lines of X-Forwarded-For.
func from(peer string, lines ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.RemoteAddr = peer
	if len(lines) > 0 {
		r.Header[forwardedFor] = lines
	}
	return r
}

// Fails when the header of a peer that is not a proxy is trusted, or when the list is read from the left. Also fails when only the first of
// several headers is read, or when an entry that is no address is skipped.
func TestTheClientIsTheLastAddressThatIsNoProxys(t *testing.T) {
	const proxy = "10.0.0.1:1234"
	for name, tc := range map[string]struct {
		request *http.Request
		want    string
	}{
		"no header":                        {from(proxy), "10.0.0.1"},
		"a client":                         {from("192.0.2.1:1"), "192.0.2.1"},
		"a client that names another":      {from("192.0.2.1:1", "198.51.100.7"), "192.0.2.1"},
		"one proxy":                        {from(proxy, "198.51.100.7"), "198.51.100.7"},
		"what the client said before":      {from(proxy, "203.0.113.9, 198.51.100.7"), "198.51.100.7"},
		"a client that says it is a proxy": {from(proxy, "10.9.9.9, 198.51.100.7"), "198.51.100.7"},
		"two proxies":                      {from(proxy, "203.0.113.9, 198.51.100.7, 10.0.0.2"), "198.51.100.7"},
		"several headers":                  {from(proxy, "203.0.113.9", "198.51.100.7", "10.0.0.2"), "198.51.100.7"},
		"nothing but proxies":              {from(proxy, "10.0.0.3, 10.0.0.2"), "10.0.0.3"},
		"garbage":                          {from(proxy, "what?"), "10.0.0.1"},
		"garbage behind a proxy":           {from(proxy, "203.0.113.9, what?, 10.0.0.2"), "10.0.0.2"},
		"garbage of the client's":          {from(proxy, "what?, 198.51.100.7"), "198.51.100.7"},
		"an empty header":                  {from(proxy, ""), "10.0.0.1"},
		"an empty entry":                   {from(proxy, "198.51.100.7,"), "10.0.0.1"},
		"no spaces":                        {from(proxy, "203.0.113.9,198.51.100.7"), "198.51.100.7"},
		"tabs":                             {from(proxy, "203.0.113.9,\t198.51.100.7\t"), "198.51.100.7"},
		"a port":                           {from(proxy, "198.51.100.7:443"), "198.51.100.7"},
		"IPv6":                             {from(proxy, "2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::"},
		"IPv6 in brackets":                 {from(proxy, "[2001:db8:1:2:3:4:5:6]"), "2001:db8:1:2::"},
		"IPv6 with a port":                 {from(proxy, "[2001:db8:1:2:3:4:5:6]:443"), "2001:db8:1:2::"},
		"IPv6 with a zone":                 {from(proxy, "fe80::1%eth0"), "fe80::"},
		"IPv6 with a zone and a port":      {from(proxy, "[fe80::1%eth0]:443"), "fe80::"},
		"IPv4 in IPv6":                     {from(proxy, "::ffff:198.51.100.7"), "198.51.100.7"},
		"a proxy as IPv4 in IPv6":          {from("[::ffff:10.0.0.1]:1", "198.51.100.7"), "198.51.100.7"},
		"a proxy of IPv6":                  {from("[2001:db8:ffff::1]:1", "198.51.100.7"), "198.51.100.7"},
		"a peer that is no address":        {from("@", "198.51.100.7"), "invalid IP"},
	} {
		if got := proxies.Client(tc.request).String(); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	if got := Proxies(nil).Client(from(proxy, "198.51.100.7")).String(); got != "10.0.0.1" {
		t.Errorf("without proxies: %s, want the peer", got)
	}
}

// Entries before the client's decide nothing, and a peer that is not a proxy is always the client.
func FuzzClient(f *testing.F) {
	for _, seed := range []string{
		"", ",", "198.51.100.7", "203.0.113.9, 198.51.100.7", "10.0.0.2", "[fe80::1%eth0]:443", "2001:db8::1, 10.1.1.1", "what?", "[", "]:1",
		"::ffff:10.0.0.1", "1.2.3.4:99999", "%", "1.2.3.4%eth0",
	} {
		f.Add(seed, "203.0.113.9")
		f.Add(seed, "\x00,")
	}
	f.Fuzz(func(t *testing.T, line, before string) {
		if got := proxies.Client(from("192.0.2.1:1", line)); got.String() != "192.0.2.1" {
			t.Errorf("a client is taken for %s", got)
		}
		got := proxies.Client(from("10.0.0.1:1", line))
		if !got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Errorf("the client is %q", got)
		}
		if proxies.trust(got) {
			return // only proxies were named
		}
		for _, lines := range [][]string{{before, line}, {before + "," + line}} {
			if other := proxies.Client(from("10.0.0.1:1", lines...)); other != got {
				t.Errorf("%q is from %s, and with %q before it from %s", line, got, before, other)
			}
		}
		if !strings.ContainsAny(line, ".:") {
			t.Errorf("%q names %s", line, got)
		}
	})
}

func TestAnAddressStandsForAClient(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1":            "192.0.2.1",
		"::ffff:192.0.2.1":     "192.0.2.1",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::",
		"2001:db8:1:2:ffff::":  "2001:db8:1:2::",
		"fe80::1:2%eth0":       "fe80::",
	} {
		if got := AddressKey(netip.MustParseAddr(in)); got.String() != want {
			t.Errorf("%s stands for %s, want %s", in, got, want)
		}
	}
}
