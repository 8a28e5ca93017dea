package provider

import (
	"io"
	"log"
	"net"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"testing"

	"notifier/internal/event"
)

// Fails when a server that speaks first, as those of SSH and mail do, is a request that failed for no reason. The request is made once the
// connection has been closed for that.
func TestAServerThatSpeaksFirstIsNoneOfHTTP(t *testing.T) {
	former := log.Writer()
	log.SetOutput(io.Discard) // net/http quotes there what the server says
	defer log.SetOutput(former)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "SSH-2.0-s3cret\r\n")
		_, _ = io.Copy(io.Discard, conn)
	}()
	c, err := NewClient(Config{
		Address: "http://" + l.Addr().String(), Network: Network{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	}, ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := c.trace.GotConn
	c.trace.GotConn = func(info httptrace.GotConnInfo) {
		got(info)
		<-ended
	}
	e := event.AsError(c.Post(t.Context(), Request{JSON: "x"}))
	if e.Class != event.Retry || e.Label != LabelReply || strings.Contains(e.Error(), "s3cret") || !strings.Contains(Advice(e), "scheme and port") {
		t.Errorf("class %d, label %s, %s (%v); %q", e.Class, e.Label, e, e.Unwrap(), Advice(e))
	}
}
