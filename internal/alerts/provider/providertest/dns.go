package providertest

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// DNS starts a name server with the given names and their addresses, and returns a resolver that queries it.
func DNS(t *testing.T, names map[string]string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply, err := dnsReply(buf[:n], names); err == nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	})
	t.Cleanup(func() { _ = conn.Close(); wg.Wait() })
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
		},
	}
}

func dnsReply(query []byte, names map[string]string) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	q := m.Questions[0]
	m.Response, m.Authoritative = true, true
	m.Answers, m.Authorities, m.Additionals = nil, nil, nil
	address, known := names[strings.TrimSuffix(q.Name.String(), ".")]
	if !known {
		m.RCode = dnsmessage.RCodeNameError
		return m.Pack()
	}
	header := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}
	switch addr := netip.MustParseAddr(address); {
	case addr.Is4() && q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}}}
	case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
		m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}}}
	}
	return m.Pack()
}
