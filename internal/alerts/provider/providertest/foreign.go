package providertest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// foreign fails when the owner of a Provider learns only that the request failed: the scheme or the port of the address is wrong, or of the
// proxy's.
func (s Subject) foreign(t *testing.T) {
	for name, says := range map[string]string{
		"HTTP/2 alone, as gRPC": "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00",
		"TLS alone":             "\x15\x03\x01\x00\x02\x02\x46",
		"SMTP":                  "502 5.5.2 " + replySecret + "\r\n",
		"Redis":                 "-ERR unknown command " + replySecret + "\r\n",
	} {
		server := listen(t, func(c net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(c, says)
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c) // to close with bytes unread would reset the connection
		})
		for label, configs := range map[string][]provider.Config{
			provider.LabelReply: {s.config("http://" + server)},
			provider.LabelProxy: {s.by("http://"+server, "http://far.test", far(t)), s.by("http://"+server, "https://far.test", far(t))},
		} {
			for _, cfg := range configs {
				err := s.send(t, cfg)
				want(t, err, event.Retry, label)
				advice := provider.Advice(event.AsError(err))
				if !strings.Contains(advice, "scheme and port") || strings.Contains(advice, "proxy") != (label == provider.LabelProxy) {
					t.Errorf("%s: %v; %q", name, err, advice)
				}
			}
		}
	}
}

// wrongScheme fails when the owner of a Provider learns only that the request was bad. The servers are Go's own and, by their pages, nginx and
// Apache.
func (s Subject) wrongScheme(t *testing.T) {
	secure := NewCA(t).NewTLSSink(t, nil, false, "127.0.0.1")
	servers := []string{"http://" + secure.Listener.Addr().String()}
	for _, page := range []string{
		"<html><head><title>400 The plain HTTP request was sent to HTTPS port</title></head></html>",
		"<p>Reason: You're speaking plain HTTP to an SSL-enabled server port.<br />\n Instead use the HTTPS scheme to access this URL, please.</p>",
	} {
		servers = append(servers, NewSink(t, Says(http.StatusBadRequest, page+replySecret)).URL)
	}
	for _, server := range servers {
		err := s.send(t, s.config(server))
		want(t, err, event.Permanent, provider.LabelClient)
		if advice := provider.Advice(event.AsError(err)); !strings.HasPrefix(err.Error(), "HTTP 400") || !strings.Contains(advice, "scheme and port") {
			t.Errorf("%v; %q", err, advice)
		}
	}
}
