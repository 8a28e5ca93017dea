package receivertest

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// Server is the interface of server.Server.
type Server interface {
	Listen(ctx context.Context) error
	Run(ctx context.Context) error
	Addr() net.Addr
}

// Serve runs a server until the test ends, and returns its base URL.
func Serve(t testing.TB, s Server) (url string) {
	t.Helper()
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return "http://" + s.Addr().String()
}

// Buffer is a bytes.Buffer that several goroutines can write to, while its String is called.
type Buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// Elapse lets time pass on the clock of a synctest bubble.
func Elapse(d time.Duration) { <-time.After(d) }
