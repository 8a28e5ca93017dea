package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/net/http2"

	"notifier/internal/options"
)

// Options describe one listener. Addr, Handler and Log are required.
//
// Before a handler has seen a request, senders can make a listener use Connections times the memory of one connection. Over HTTP/1 that is
// the headers as net/http parses them: up to 16 times their bytes, if every line is as short as possible, and the limit is 4 KiB above
// HeaderBytes. Over HTTP/2 it is the window of http2Limits, and for each of Streams some 34 KiB: its headers, and the handler that waits for
// its body.
type Options struct {
	// Name identifies the listener in logs and metrics.
	Name    string
	Addr    string
	Handler http.Handler
	// HeaderTimeout, ReadTimeout, WriteTimeout and IdleTimeout bound the time of a connection for the headers, for the whole request, from the
	// headers to the end of the answer, and between two requests.
	HeaderTimeout, ReadTimeout, WriteTimeout, IdleTimeout time.Duration
	// HeaderBytes bounds the request line and headers; beyond it the answer is 431.
	HeaderBytes int
	// Connections caps the open connections. At the cap the address with the most of them loses one.
	Connections int
	// Streams caps the requests at a time on one connection of HTTP/2.
	Streams int
	// WholeAddresses counts IPv6 addresses one by one, for senders inside the cluster: the Pods of a node share a /64. Otherwise a /64 counts
	// as one address, since a sender outside has all of one.
	WholeAddresses bool
	// TLS makes the listener HTTPS, with HTTP/2 beside HTTP/1. Without it the listener is HTTP/1 in clear text and nothing else. New
	// adds HTTP/2 to it, so that each listener needs its own.
	TLS *tls.Config
	// Drain bounds the time that requests in progress may take after the end of Run's context.
	Drain      time.Duration
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// DefaultOptions returns the limits of a stock install; Addr and Handler are to be added. A request has 5 s for its headers and 10 s in
// all; the answer may take 25 s from the headers on, which is longer than every wait of the handlers. Proxies keep their connections for up
// to ten minutes after a request, and must be the first to close one: a request that is sent meanwhile is lost. Headers of 8 KiB, some eight
// times those of Git hosts, cost at most 200 KiB a connection, and so 200 MiB in all. With HTTP/2 that is a third more.
func DefaultOptions() Options {
	return Options{
		HeaderTimeout: 5 * time.Second,
		ReadTimeout:   10 * time.Second,
		WriteTimeout:  25 * time.Second,
		IdleTimeout:   620 * time.Second,
		HeaderBytes:   8 << 10,
		Connections:   1024,
		Streams:       8,
		Drain:         5 * time.Second,
	}
}

func (o Options) validate() error {
	errs := []error{options.Missing(map[string]bool{"Handler": o.Handler == nil, "Log": o.Log == nil})}
	for _, d := range []time.Duration{o.HeaderTimeout, o.ReadTimeout, o.WriteTimeout, o.IdleTimeout, o.Drain} {
		if d <= 0 {
			errs = append(errs, errors.New("a time-out is not positive"))
			break
		}
	}
	if o.HeaderBytes <= 0 || o.Connections <= 0 || o.Streams <= 0 {
		errs = append(errs, errors.New("the caps on headers, connections and streams must be positive"))
	}
	return errors.Join(errs...)
}

// Server serves one handler on one address.
type Server struct {
	options  Options
	http     *http.Server
	conns    *conns
	listener net.Listener
}

// New returns a server that does not listen yet.
func New(o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("%s server: %w", o.Name, err)
	}
	with := promauto.With(o.Registerer)
	label := prometheus.Labels{"listener": o.Name}
	evicted := with.NewCounter(prometheus.CounterOpts{
		Name: "notifier_http_connections_refused_total", ConstLabels: label,
		Help: "Connections that were closed because the listener had as many as it may have.",
	})
	s := &Server{options: o, conns: newConns(o.Connections, o.WholeAddresses, evicted.Inc)}
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "notifier_http_connections", ConstLabels: label, Help: "Open connections of a listener.",
	}, func() float64 { return float64(s.conns.open()) })
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(o.TLS != nil)
	s.http = &http.Server{
		Handler:                      o.Handler,
		Protocols:                    &protocols,
		DisableGeneralOptionsHandler: true, // the handler answers "OPTIONS *" like any unknown path
		ReadHeaderTimeout:            o.HeaderTimeout,
		ReadTimeout:                  o.ReadTimeout,
		WriteTimeout:                 o.WriteTimeout,
		IdleTimeout:                  o.IdleTimeout,
		MaxHeaderBytes:               o.HeaderBytes,
		ConnState:                    s.conns.state,
		ErrorLog:                     slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		HTTP2:                        http2Limits(o.Streams),
	}
	if o.TLS != nil {
		s.http.TLSConfig = o.TLS
		// A fault of HTTP/2 is mended with a module then, and not only with the compiler: that of net/http in Go 1.26.8 and before lets any
		// client end the process (GO-2026-6617).
		if err := http2.ConfigureServer(s.http, nil); err != nil { //nolint:staticcheck // deprecated in favour of that of net/http
			return nil, fmt.Errorf("%s server: %w", o.Name, err)
		}
	}
	return s, nil
}

// http2Limits bounds the memory of one HTTP/2 connection. Against rapid reset (CVE-2023-39325) the server runs no more handlers at once than
// there may be streams, including those of reset streams, queues four times as many and then closes the connection. Against floods of
// CONTINUATION it closes a connection whose headers exceed the limit. The limits here bound the frames and windows that a connection may
// fill before any handler reads: 256 KiB times the connections.
func http2Limits(streams int) *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          streams,
		MaxReadFrameSize:              16 << 10,
		MaxReceiveBufferPerConnection: 256 << 10,
		MaxReceiveBufferPerStream:     64 << 10,
		SendPingTimeout:               30 * time.Second,
		PingTimeout:                   10 * time.Second,
		WriteByteTimeout:              10 * time.Second,
	}
}

// Listen opens the address. The kernel accepts connections from now on, and Run serves them.
func (s *Server) Listen(ctx context.Context) error {
	config := net.ListenConfig{KeepAlive: keepAlive}
	l, err := config.Listen(ctx, "tcp", s.options.Addr)
	if err != nil {
		return fmt.Errorf("%s server: %w", s.options.Name, err)
	}
	s.listener = cappedListener{Listener: l, conns: s.conns}
	return nil
}

// Addr returns the address that Listen opened, for an Addr that left the port to the system.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// serve blocks until the server is shut down.
func (s *Server) serve() error {
	if s.options.TLS == nil {
		return s.http.Serve(s.listener)
	}
	return s.http.ServeTLS(s.listener, "", "")
}

// Run serves until ctx ends, and then gives the requests in progress the drain time to end. Listen must have succeeded. Connections that
// are open after that are closed, which ends their requests' contexts.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.serve() }() // joined below in both cases
	select {
	case err := <-served:
		return fmt.Errorf("%s server: %w", s.options.Name, err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Drain)
	defer cancel()
	if err := s.http.Shutdown(drain); err != nil {
		s.options.Log.WarnContext(ctx, "requests were cut off at the end", "listener", s.options.Name)
		_ = s.http.Close() // the connections are closed even if Close fails
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s server: %w", s.options.Name, err)
	}
	return nil
}
