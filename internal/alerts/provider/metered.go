package provider

import (
	"errors"
	"net"
	"sync/atomic"
)

// ErrTooMuch means that a destination sent more than a Metered connection allows.
var ErrTooMuch = errors.New("the destination says too much")

// Metered is a connection that bounds the bytes read until it is reset. Libraries keep a line for as long as it does not end.
type Metered struct {
	net.Conn
	most int64
	left atomic.Int64 // of most
	// broke is the first failure to read, which some libraries do not return.
	broke atomic.Pointer[error]
}

// NewMetered returns c with its reads bounded to most bytes.
func NewMetered(c net.Conn, most int64) *Metered {
	m := &Metered{Conn: c}
	m.Allow(most)
	return m
}

// Allow changes the bound, and allows the other end to send most bytes from now on. It must not be called during a Read.
func (m *Metered) Allow(most int64) {
	m.most = most
	m.Reset()
}

// Reset allows the other end to send most bytes again.
func (m *Metered) Reset() { m.left.Store(m.most) }

// Fault returns the first failure to read, nil if there was none.
func (m *Metered) Fault() error {
	if err := m.broke.Load(); err != nil {
		return *err
	}
	return nil
}

// Read returns ErrTooMuch once the other end has sent too much.
func (m *Metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if m.left.Add(-int64(n)) < 0 {
		n, err = 0, ErrTooMuch
	}
	if err != nil {
		m.note(err)
	}
	return n, err
}

// note is a function of its own, so that no error is allocated for a Read without one.
func (m *Metered) note(err error) { m.broke.CompareAndSwap(nil, &err) }
