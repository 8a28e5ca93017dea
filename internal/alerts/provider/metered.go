package provider

import (
	"errors"
	"net"
	"sync/atomic"
)

// ErrTooMuch says that a destination said more than a Metered connection lets it.
var ErrTooMuch = errors.New("the destination says too much")

// Metered is a connection whose other end may say only so much until it is reset: libraries keep a line for as long as it does not end.
type Metered struct {
	net.Conn
	most int64
	read atomic.Int64
	// broke is the first failure to read, which libraries do not always hand on.
	broke atomic.Pointer[error]
}

// NewMetered bounds what is read of c to most bytes.
func NewMetered(c net.Conn, most int64) *Metered { return &Metered{Conn: c, most: most} }

// Reset lets the other end say as much again.
func (m *Metered) Reset() { m.read.Store(0) }

// Fault returns the first failure to read, nil if there was none.
func (m *Metered) Fault() error {
	if err := m.broke.Load(); err != nil {
		return *err
	}
	return nil
}

// Read returns ErrTooMuch once the other end has said too much.
func (m *Metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if m.read.Add(int64(n)) > m.most {
		n, err = 0, ErrTooMuch
	}
	if err != nil {
		m.broke.CompareAndSwap(nil, &err)
	}
	return n, err
}
