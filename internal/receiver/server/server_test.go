package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/internal/event"
	"notifier/internal/receiver"
	"notifier/internal/receiver/receivertest"
)

// dial opens a connection to base and sends text.
func dial(t testing.TB, s *Server, text string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// answerOn reads one answer from c.
func answerOn(c net.Conn) (int, error) {
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Body.Close()
}

// closed waits until the server has closed c and returns the time until then.
func closed(t testing.TB, c net.Conn) time.Duration {
	t.Helper()
	begin := time.Now()
	if _, err := io.Copy(io.Discard, c); err != nil {
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			t.Fatal("the connection is still open")
		}
	}
	return time.Since(begin)
}

// Fails without the time-out of headers, without that of the whole request, or when the server waits for a refused request's body as long
// as for an accepted one's.
func TestSlowConnectionsAreClosed(t *testing.T) {
	hook := newHook(t, "team-a/hook")
	w := newWebhooks(t, receivertest.Stored, hook)
	_, s := serveReal(t, w, func(o *Options) {
		o.HeaderTimeout, o.ReadTimeout, o.IdleTimeout = 100*time.Millisecond, 4*time.Second, 100*time.Millisecond
	})
	head := "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"
	signature := "X-Hub-Signature-256: " + receivertest.Sign(token, "x") + "\r\n"
	for name, tc := range map[string]struct {
		text   string
		within time.Duration
		status int // 0 for none
	}{
		"silence":                        {"", 2 * time.Second, 0},
		"half a header":                  {"POST /hook/x HTTP/1.1\r\nHost: x\r\nX-Slow: ", 2 * time.Second, 0},
		"half a body on a known path":    {fmt.Sprintf(head, hook.Path) + signature + "\r\n{", 8 * time.Second, 408},
		"half a body on an unknown path": {fmt.Sprintf(head, receiver.Path("x", "x", "x")) + signature + "\r\n{", 3 * time.Second, 404},
		"half a body without signature":  {fmt.Sprintf(head, hook.Path) + "\r\n{", 3 * time.Second, 400},
		"nothing after an answer":        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 2 * time.Second, 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			c := dial(t, s, tc.text)
			if tc.status != 0 {
				if status, err := answerOn(c); err != nil || status != tc.status {
					t.Errorf("answered %d, %v; want %d", status, err, tc.status)
				}
			}
			closed(t, c)
			if took := time.Since(begin); took > tc.within {
				t.Errorf("closed after %s, want within %s", took, tc.within)
			}
		})
	}
}

func TestAHeaderBeyondTheCapIsRefused(t *testing.T) {
	w := newWebhooks(t, receivertest.Stored)
	_, s := serveReal(t, w, nil)
	c := dial(t, s, "POST / HTTP/1.1\r\nHost: x\r\nX-Big: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	if status, err := answerOn(c); err != nil || status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("answered %d, %v; want 431", status, err)
	}
}

// Fails when Run returns while a request is being answered, accepts new ones, or waits for one beyond the drain time.
func TestTheEndWaitsForRequestsAndNotForEver(t *testing.T) {
	for name, tc := range map[string]struct {
		drain  time.Duration
		status int // 0 for a connection that was cut off
		secure bool
	}{
		"a request that ends in time":             {10 * time.Second, http.StatusOK, false},
		"a request that does not":                 {50 * time.Millisecond, 0, false},
		"a request over HTTP/2 that ends in time": {10 * time.Second, http.StatusOK, true},
		"a request over HTTP/2 that does not":     {50 * time.Millisecond, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			started, release := make(chan struct{}), make(chan struct{})
			hook := newHook(t, "team-a/hook")
			w := newWebhooks(t, receivertest.TriggersFunc(func(context.Context, event.Trigger) error {
				close(started)
				<-release
				return nil
			}), hook)
			o := DefaultOptions()
			o.Addr, o.Handler, o.Log, o.Drain = "127.0.0.1:0", w, slog.New(slog.DiscardHandler), tc.drain
			sender, scheme := client(t, 1), "http://"
			if tc.secure {
				o.TLS = newCertificate(t).Config()
				sender, scheme = secureClient(t, "HTTP/2.0"), "https://"
			}
			s, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Listen(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- s.Run(ctx) }()
			answered := make(chan int, 1)
			go func() {
				status, _ := send(t.Context(), sender, scheme+s.Addr().String()+hook.Path, token, "{}")
				answered <- status
			}()
			<-started
			cancel()
			if tc.status != 0 {
				select {
				case err := <-done:
					t.Fatalf("Run returned %v while a request was being answered", err)
				case <-time.After(100 * time.Millisecond): // nothing must happen
				}
				close(release)
			} else {
				defer close(release)
			}
			if status := <-answered; status != tc.status {
				t.Errorf("answered %d, want %d", status, tc.status)
			}
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
			if c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr().String()); err == nil {
				_ = c.Close()
				t.Error("the port is still open")
			}
		})
	}
}

func TestAnAddressInUseIsAnErrorThatNamesTheServer(t *testing.T) {
	_, s := serveReal(t, http.NotFoundHandler(), nil)
	o := DefaultOptions()
	o.Name, o.Addr, o.Handler, o.Log = "webhook", s.Addr().String(), http.NotFoundHandler(), slog.New(slog.DiscardHandler)
	second, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "webhook server") {
		t.Errorf("got %v", err)
	}
}

func TestServerOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no handler":     func(o *Options) { o.Handler = nil },
		"no log":         func(o *Options) { o.Log = nil },
		"no time-out":    func(o *Options) { o.ReadTimeout = 0 },
		"no connections": func(o *Options) { o.Connections = 0 },
		"no headers":     func(o *Options) { o.HeaderBytes = 0 },
	} {
		o := DefaultOptions()
		o.Handler, o.Log = http.NotFoundHandler(), slog.New(slog.DiscardHandler)
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
