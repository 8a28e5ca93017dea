package providertest

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// The secrets of the kit. No error may show any of them.
const (
	tokenSecret   = "token-s3cret"
	pathSecret    = "path-s3cret"
	headerSecret  = "header-s3cret"
	proxySecret   = "proxy-s3cret"
	replySecret   = "reply-s3cret"
	locatedSecret = "location-s3cret"
)

// Subject is the destination type under test.
type Subject struct {
	// New returns the type's Sender for Config.Address. The test of a type with a fixed host puts the address in the host's place.
	New func(provider.Config) (provider.Sender, error)
	// Config has the settings that the type needs. The kit sets address, network and the like, and the token unless it is set here.
	// Secrets in it contain "s3cret".
	Config provider.Config
	// Serve answers every request of a send like the vendor's server. Nil answers 200 with no body.
	Serve http.HandlerFunc
	// Requests is the number of requests of a send, 0 for one.
	Requests int
	// Path is the path of the address, without a leading slash, if the type requires a form. It contains "s3cret".
	Path string
	// Reads means that a send needs the body of an answer, so an unreadable answer is a failed send.
	Reads bool

	target
}

// Run tests the type against the contract of package provider.
func Run(t *testing.T, s Subject) {
	s.target = target{
		create: s.New, config: s.config, start: s.start, proxyVariable: "HTTP_PROXY", cases: new(atomic.Int64),
		plain: func(host string) string { return "http://" + host }, secure: func(host string) string { return "https://" + host },
	}
	t.Run("every status has its class", s.statuses)
	t.Run("a destination's wish to wait is honoured within bounds", s.retryAfter)
	t.Run("a redirect is refused and its target never asked", s.redirect)
	t.Run("a destination that hangs is given up in time", s.hang)
	t.Run("a destination that switches protocols is refused in time", s.switches)
	t.Run("a broken connection is worth another try", s.broken)
	t.Run("a server of another protocol is named as that", s.foreign)
	t.Run("a port of HTTPS that is sent HTTP is named as that", s.wrongScheme)
	t.Run("an answer that never ends is a success and ends here", s.endless)
	t.Run("an answer that drips is a success and ends here", s.drip)
	t.Run("one connection serves many sends until closed", s.connections)
	s.run(t, map[string]func(*provider.Config){"no scheme": func(c *provider.Config) { c.Address = "localhost/" + pathSecret }})
}

func (s Subject) config(address string) provider.Config {
	cfg := s.Config
	cfg.Address = address + "/" + cmp.Or(s.Path, pathSecret)
	cfg.Token = cmp.Or(cfg.Token, tokenSecret)
	if strings.HasPrefix(cfg.Type, "generic") {
		cfg.Headers = map[string]string{"X-Secret": headerSecret}
	}
	cfg.Network = Loopback()
	cfg.Timeout = 30 * time.Second
	return cfg
}

func (s Subject) requests() int { return max(s.Requests, 1) }

// start starts a Sink that answers like the vendor's server.
func (s Subject) start(t *testing.T, ca *CA, clients bool, hosts ...string) Server {
	t.Helper()
	sink := NewSink
	if ca != nil {
		sink = func(tb testing.TB, _ http.HandlerFunc) *Sink {
			return ca.NewTLSSink(tb, func(w http.ResponseWriter, r *http.Request) {
				if r.TLS.Version < tls.VersionTLS12 {
					w.WriteHeader(http.StatusTeapot)
				} else if s.Serve != nil {
					s.Serve(w, r)
				}
			}, clients, hosts...)
		}
	}
	v := sink(t, s.Serve)
	return Server{
		Addr: v.Listener.Addr(), Host: func() string { return v.Last(t).Host },
		Received: func() int {
			if n := len(v.Requests()); n%s.requests() != 0 {
				t.Errorf("%d requests are no number of whole messages", n)
			}
			return len(v.Requests()) / s.requests()
		},
	}
}

// noSecret fails the test if an error or a printed Config shows a secret.
func noSecret(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	text := fmt.Sprintf("%v %+v %s", err, err, err.Error())
	for _, secret := range []string{"s3cret", "127.0.0.1", "localhost", "://"} {
		if strings.Contains(text, secret) {
			t.Errorf("the error shows %q: %s", secret, text)
		}
	}
	if e, ok := errors.AsType[*event.Error](err); ok && e.Reason != e.Error() {
		t.Errorf("the reason %q is not the error's text %q", e.Reason, e.Error())
	}
}

// want fails the test unless err is a classified failure.
func want(t *testing.T, err error, class event.Class, label string) {
	t.Helper()
	e, ok := err.(*event.Error) //nolint:errorlint // Senders return the classified error itself
	if !ok {
		t.Fatalf("got %T (%v), want an *event.Error of label %s", err, err, label)
	}
	if e.Class != class || e.Label != label {
		t.Errorf("got class %d, label %s (%s), want class %d, label %s", e.Class, e.Label, e.Reason, class, label)
	}
}

// statuses fails when 408 or 425 is classified like the other 4xx, or a 3xx like a success.
func (s Subject) statuses(t *testing.T) {
	table := []struct {
		class    event.Class
		label    string
		statuses []int
	}{
		{event.Permanent, provider.LabelRedirect, []int{300, 301, 302, 303, 304, 307, 308}},
		{event.Permanent, provider.LabelClient, []int{400, 401, 402, 403, 404, 405, 409, 410, 411, 413, 422, 431, 451}},
		{event.Retry, provider.LabelClient, []int{408, 425}},
		{event.Retry, provider.LabelProxy, []int{407}},
		{event.Retry, provider.LabelLimited, []int{429}},
		{event.Retry, provider.LabelServer, []int{500, 501, 502, 503, 504, 507, 520, 599}},
	}
	var current atomic.Int64
	sink := NewSink(t, func(w http.ResponseWriter, r *http.Request) { answer(int(current.Load()), nil)(w, r) })
	if s.Serve == nil {
		for _, status := range []int{200, 201, 202, 204, 206} {
			current.Store(int64(status))
			if err := s.send(t, s.config(sink.URL)); err != nil {
				t.Errorf("HTTP %d: %v, want success", status, err)
			}
		}
	} else if err := s.send(t, s.config(NewSink(t, s.Serve).URL)); err != nil {
		t.Errorf("what the vendor answers: %v, want success", err)
	}
	for _, row := range table {
		for _, status := range row.statuses {
			current.Store(int64(status))
			err := s.send(t, s.config(sink.URL))
			want(t, err, row.class, row.label)
			if err != nil && !strings.HasPrefix(err.Error(), fmt.Sprintf("HTTP %d", status)) {
				t.Errorf("HTTP %d: the reason %q does not say so", status, err)
			}
		}
	}
}

func (s Subject) retryAfter(t *testing.T) {
	for value, wait := range map[string]time.Duration{
		"": 0, "30": 30 * time.Second, "-30": 0, "nonsense": 0,
		"Wed, 21 Oct 2015 07:28:00 GMT": 0, "Fri, 31 Dec 9999 23:59:59 GMT": provider.MaxRetryAfter,
		"99999999": provider.MaxRetryAfter, "99999999999999999999999": provider.MaxRetryAfter,
	} {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			sink := NewSink(t, answer(status, map[string]string{"Retry-After": value}))
			err := s.send(t, s.config(sink.URL))
			if e := event.AsError(err); e.Class != event.Retry || e.RetryAfter != wait {
				t.Errorf("HTTP %d, Retry-After %q: got class %d after %v, want a retry after %v", status, value, e.Class, e.RetryAfter, wait)
			}
		}
	}
}

// redirect fails when a redirect is followed, or counts as a success.
func (s Subject) redirect(t *testing.T) {
	target := NewSink(t, nil)
	for _, status := range []int{301, 302, 303, 307, 308} {
		sink := NewSink(t, answer(status, map[string]string{"Location": target.URL + "/" + locatedSecret}))
		want(t, s.send(t, s.config(sink.URL)), event.Permanent, provider.LabelRedirect)
	}
	if n := len(target.Requests()); n != 0 {
		t.Errorf("the target of the redirects got %d requests", n)
	}
}

// hang fails when the send has no deadline of its own; the test then reaches its own.
func (s Subject) hang(t *testing.T) {
	sink := NewSink(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts connections and nothing answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, address := range []string{sink.URL, "https://" + silent.Addr().String()} {
		cfg := s.config(address)
		cfg.Timeout = 50 * time.Millisecond
		want(t, s.send(t, cfg), event.Retry, provider.LabelTimeout)
	}
}

// switches fails when the send waits for the end of a connection that no context closes any more.
func (s Subject) switches(t *testing.T) {
	sink := NewSink(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		time.AfterFunc(20*time.Second, func() { _ = conn.Close() })
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
	})
	cfg := s.config(sink.URL)
	cfg.Timeout = time.Minute
	start := time.Now()
	want(t, s.send(t, cfg), event.Permanent, provider.LabelClient)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("the send took %v", took)
	}
}

func (s Subject) broken(t *testing.T) {
	rude := NewSink(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for _, address := range []string{"http://" + Refusing, rude.URL} {
		want(t, s.send(t, s.config(address)), event.Retry, provider.LabelConnect)
	}
	plain := NewSink(t, nil)
	quiet(plain)
	want(t, s.send(t, s.config("https://"+plain.Listener.Addr().String())), event.Retry, provider.LabelTLS)
	cfg := s.config("http://nowhere.invalid")
	cfg.Network.Resolver = DNS(t, nil)
	want(t, s.send(t, cfg), event.Retry, provider.LabelDNS)
}

// endless fails when the length of an answer is unbounded. The bytes that the kernel buffers on the way cannot be bounded here. A type
// that reads its answers fails to send.
func (s Subject) endless(t *testing.T) {
	ended := make(chan int, 1)
	sink := NewSink(t, func(w http.ResponseWriter, r *http.Request) {
		written := 0
		defer func() { ended <- written }()
		for r.Context().Err() == nil {
			n, err := io.WriteString(w, strings.Repeat(replySecret, 1000))
			if written += n; err != nil {
				return
			}
		}
	})
	if err := s.send(t, s.config(sink.URL)); s.Reads {
		want(t, err, event.Retry, provider.LabelReply)
	} else if err != nil {
		t.Errorf("got %v, want success", err)
	}
	if n := <-ended; n > 32<<20 {
		t.Errorf("%d bytes were taken of an answer nobody reads", n)
	}
}

// drip fails when only the send's timeout bounds the wait for the rest of an unused answer; the test then takes a minute.
func (s Subject) drip(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusForbidden} {
		asked, ended := make(chan struct{}), make(chan struct{})
		ask, end := sync.OnceFunc(func() { close(asked) }), sync.OnceFunc(func() { close(ended) }) // a send may make several requests
		sink := NewSink(t, func(w http.ResponseWriter, r *http.Request) {
			ask()
			defer end()
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		cfg := s.config(sink.URL)
		cfg.Timeout = time.Minute
		if s.Reads && status == http.StatusOK {
			s.timesOut(t, cfg, asked)
			<-ended
			continue
		}
		start := time.Now()
		if err := s.send(t, cfg); (err == nil) != (status == http.StatusOK) {
			t.Errorf("HTTP %d: got %v", status, err)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("HTTP %d: the send took %v", status, took)
		}
		<-ended
	}
}

// timesOut sends with a short timeout, and with longer ones until asked is closed: on a busy machine a short one ends before the request
// reaches the sink.
func (s Subject) timesOut(t *testing.T, cfg provider.Config, asked <-chan struct{}) {
	t.Helper()
	for cfg.Timeout = 50 * time.Millisecond; ; cfg.Timeout *= 2 {
		want(t, s.send(t, cfg), event.Retry, provider.LabelTimeout)
		select {
		case <-asked:
			return
		default:
		}
	}
}

// quiet keeps a server's log of client errors out of the test's output.
func quiet(s *Sink) { s.Config.ErrorLog = log.New(io.Discard, "", 0) }
