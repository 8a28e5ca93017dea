package providertest

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// refusingProxy fails when the owner of a Provider is sent to a proxy that runs, and refuses or does not reach the destination.
func (s target) refusingProxy(t *testing.T) {
	proxies := []string{}
	for _, status := range []int{http.StatusForbidden, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		proxies = append(proxies, NewSink(t, answer(status, nil)).URL)
	}
	for reply := byte(1); reply < 9; reply++ {
		proxies = append(proxies, "socks5://"+listen(t, func(c net.Conn) { refuseSOCKS(c, reply) }))
	}
	for _, proxy := range proxies {
		err := s.send(t, s.by(proxy, s.secure("far.test"), far(t)))
		want(t, err, event.Retry, provider.LabelProxy)
		if advice := provider.Advice(event.AsError(err)); !strings.Contains(advice, "host and port of the address") {
			t.Errorf("%.6s: %v; %q", proxy, err, advice)
		}
	}
}

// refuseSOCKS takes every login and answers the command with a reply of RFC 1928.
func refuseSOCKS(c net.Conn, reply byte) {
	read := func(n byte) []byte {
		b := make([]byte, n)
		_, _ = io.ReadFull(c, b)
		return b
	}
	read(read(2)[1]) // the methods offered
	_, _ = c.Write([]byte{5, 2})
	read(read(2)[1]) // the user
	read(read(1)[0]) // the password
	_, _ = c.Write([]byte{1, 0})
	read(read(5)[4] + 2) // a name and a port
	_, _ = c.Write([]byte{5, reply, 0, 1, 0, 0, 0, 0, 0, 0})
}
