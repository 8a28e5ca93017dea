package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"notifier/internal/event"
	"notifier/internal/receiver/receivertest"
)

// attacker is one HTTP/2 connection that breaks the protocol's rules.
type attacker struct {
	*tls.Conn
	*http2.Framer
	block  bytes.Buffer
	header *hpack.Encoder
	stream uint32
}

func attack(t testing.TB, s *Server) *attacker {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}
	c, err := dialer.DialContext(t.Context(), "tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	a := &attacker{Conn: c.(*tls.Conn), Framer: http2.NewFramer(c, c), stream: 1}
	a.header = hpack.NewEncoder(&a.block)
	if err := a.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return a
}

// headers encodes the headers of a push.
func (a *attacker) headers(path, signature string) []byte {
	a.block.Reset()
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "https"},
		{":authority", "x"},
		{":path", path},
		{"content-type", "application/json"},
		{"x-github-event", "push"},
		{"x-hub-signature-256", signature},
	} {
		_ = a.header.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // a buffer accepts everything
	}
	return a.block.Bytes()
}

// reset opens a stream with a whole request and resets it at once.
func (a *attacker) reset(path, signature string) error {
	err := a.WriteHeaders(http2.HeadersFrameParam{
		StreamID: a.stream, BlockFragment: a.headers(path, signature), EndHeaders: true, EndStream: true,
	})
	if err == nil {
		err = a.WriteRSTStream(a.stream, http2.ErrCodeCancel)
	}
	a.stream += 2
	return err
}

// memory returns the memory in use of the process, in bytes.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// CVE-2023-39325, T6: ten thousand streams that are reset at once, each an authentic webhook while the bus does not answer. Fails when
// handlers of reset streams are not counted, when they last until the bus answers, or when another client is not served meanwhile.
func TestT6RapidResetLeavesMemoryAndOthersAlone(t *testing.T) {
	const streams = 10_000
	mine, theirs := newHook(t, "team-a/hook"), newHook(t, "team-b/hook")
	release := make(chan struct{})
	w := newWebhooks(t, receivertest.TriggersFunc(func(ctx context.Context, tr event.Trigger) error {
		if tr.Namespace == "team-a" {
			select {
			case <-release:
			case <-ctx.Done(): // as the bus does
			}
		}
		return nil
	}), mine, theirs)
	url, s := serveTLS(t, w, nil)
	victim := secureClient(t, "HTTP/1.1", "HTTP/2.0")
	served := func() {
		t.Helper()
		if status, err := send(t.Context(), victim, url+theirs.Path, token, "{}"); err != nil || status/100 != 2 {
			t.Errorf("another client's webhook: %d, %v", status, err)
		}
	}
	served()
	before, goroutines := memory(), runtime.NumGoroutine()
	signature, sent, connections := receivertest.Sign(token, ""), 0, 0
	for sent < streams {
		a := attack(t, s)
		connections++
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = io.Copy(io.Discard, a.Conn) // until the server closes
		}()
		for range streams {
			if sent == streams || a.reset(mine.Path, signature) != nil {
				break
			}
			sent++
			if sent%1000 == 0 {
				served()
			}
		}
		_ = a.Close()
		<-gone
	}
	served()
	more, held := runtime.NumGoroutine()-goroutines, memory()-before
	t.Logf("%d streams over %d connections: %d goroutines and %d KiB more", sent, connections, more, held>>10)
	if more > 200 {
		t.Errorf("%d goroutines more than before", more)
	}
	if held > 16<<20 {
		t.Errorf("%d bytes more than before", held)
	}
	close(release)
}

// CVE-2023-45288: fails when headers over the limit are read without end.
func TestContinuationsWithoutEndCloseTheConnection(t *testing.T) {
	w := newWebhooks(t, receivertest.Stored)
	_, s := serveTLS(t, w, nil)
	a := attack(t, s)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, a.Conn)
	}()
	err := a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: a.headers("/hook/x", "x")})
	a.block.Reset()
	_ = a.header.WriteField(hpack.HeaderField{Name: "x-more", Value: strings.Repeat("x", 2048), Sensitive: true})
	sent := 0
	for err == nil && sent < 64<<20 {
		err = a.WriteContinuation(1, false, a.block.Bytes())
		sent += a.block.Len()
	}
	if err == nil {
		t.Errorf("%d bytes of headers were taken", sent)
	}
	<-gone // the server closed
	t.Logf("closed after %d KiB", sent>>10)
}

// Fails when the server does not use http2Limits: a connection could fill more memory before a handler reads.
func TestTheHTTP2SettingsAnnounceTheLimits(t *testing.T) {
	w := newWebhooks(t, receivertest.Stored)
	_, s := serveTLS(t, w, nil)
	a := attack(t, s)
	limits := http2Limits(DefaultOptions().Streams)
	want := map[http2.SettingID]uint32{
		http2.SettingMaxConcurrentStreams: uint32(limits.MaxConcurrentStreams),
		http2.SettingMaxFrameSize:         uint32(limits.MaxReadFrameSize),
		http2.SettingInitialWindowSize:    uint32(limits.MaxReceiveBufferPerStream),
		http2.SettingMaxHeaderListSize:    uint32(DefaultOptions().HeaderBytes + 320), // net/http's allowance for ten fields
	}
	for {
		frame, err := a.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		settings, ok := frame.(*http2.SettingsFrame)
		if !ok {
			continue
		}
		for id, value := range want {
			if got, _ := settings.Value(id); got != value {
				t.Errorf("%s is %d, want %d", id, got, value)
			}
		}
		break
	}
}

// Fails when incomplete headers keep their HTTP/2 connection open beyond the time-outs.
func TestHalfAHeaderOfHTTP2IsNotWaitedForForEver(t *testing.T) {
	w := newWebhooks(t, receivertest.Stored)
	_, s := serveTLS(t, w, func(o *Options) { o.IdleTimeout = 100 * time.Millisecond })
	a := attack(t, s)
	if err := a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: a.headers("/hook/x", "x")}); err != nil {
		t.Fatal(err)
	}
	if took := closed(t, a.Conn); took > 10*time.Second {
		t.Errorf("closed after %s", took)
	}
}
