package server

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/fair"
)

// pipes is a listener whose connections are in memory.
type pipes struct {
	accepted chan net.Conn
	closed   context.Context //nolint:containedctx // it ends when the listener is closed
	end      context.CancelFunc
}

func (l pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed.Done():
		return nil, net.ErrClosed
	}
}

func (l pipes) Close() error {
	l.end()
	return nil
}

func (l pipes) Addr() net.Addr { return &net.TCPAddr{} }

// The proxies before the process keep idle connections, for a minute mostly, and Google's load balancers for ten. Fails when the server
// closes one before that: a webhook that is sent on it meanwhile is answered 502, and is not sent again.
func TestAnIdleConnectionOutlastsTheProxysUseOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := DefaultOptions()
		o.Handler = http.NotFoundHandler()
		o.Log, o.Registerer = slog.New(slog.DiscardHandler), prometheus.NewRegistry()
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		l := pipes{accepted: make(chan net.Conn)}
		l.closed, l.end = context.WithCancel(t.Context())
		s.listener = cappedListener{Listener: l, conns: s.conns}
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		proxy, conn := net.Pipe()
		l.accepted <- conn
		for range 2 {
			if _, err := io.WriteString(proxy, "POST /hook/x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if status, err := answerOn(proxy); err != nil || status != http.StatusNotFound {
				t.Fatalf("answered %d, %v", status, err)
			}
			_ = fair.Sleep(t.Context(), 10*time.Minute)
		}
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		_ = proxy.Close()
	})
}
