package provider

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"notifier/internal/fair"
)

// ErrTooMuch means that a destination sent more than a Metered connection allows.
var ErrTooMuch = errors.New("the destination says too much")

// A certificate's chain takes up to a quarter of a second of processor time to verify: crypto/x509 tries a hundred signatures, and one with
// P-521 or a long RSA key takes milliseconds. No context ends that, and a tenant's destination can ask for it with each of a thousand sends.
// So what the other end sends in a handshake is processed for one connection of a namespace at a time. The connections of one Provider wait
// for each other before that, so that a bad destination delays each part that another Provider of its namespace reads by one handshake only.
var (
	clientTurns    = fair.NewCapacities[any](nil, 1, 0)
	namespaceTurns = fair.NewCapacities[string](nil, 1, 0)
)

// Metered is a connection that bounds the bytes read until it is reset. Libraries keep a line for as long as it does not end.
//
// Until Opened, what was read is processed in a turn of the client and of its namespace: Read takes the turn once it has data, and the next
// call of Read, Write or Close gives it back. So the turn is not kept while the other end is waited for.
type Metered struct {
	net.Conn
	most int64
	left atomic.Int64 // of most
	// broke is the first failure to read, which some libraries do not return.
	broke atomic.Pointer[error]

	client    any // the key of its turns
	namespace string
	opened    atomic.Bool
	closed    context.Context //nolint:containedctx // it ends when the connection is closed
	end       context.CancelFunc

	mu          sync.Mutex
	ofClient    fair.KeyUse[any]
	ofNamespace fair.KeyUse[string]
}

// meter makes m a connection over c whose reads are bounded to most bytes, for a client of a namespace.
func (m *Metered) meter(c net.Conn, most int64, client any, namespace string) {
	m.Conn, m.client, m.namespace = c, client, namespace
	m.closed, m.end = context.WithCancel(context.Background())
	m.Allow(most)
}

// Allow changes the bound, and allows the other end to send most bytes from now on. It must not be called during a Read.
func (m *Metered) Allow(most int64) {
	m.most = most
	m.Reset()
}

// Reset allows the other end to send most bytes again.
func (m *Metered) Reset() { m.left.Store(m.most) }

// Opened says that the handshake is over. What is read from now on is processed without a turn.
func (m *Metered) Opened() {
	m.opened.Store(true)
	m.leave()
}

// Fault returns the first failure to read, nil if there was none.
func (m *Metered) Fault() error {
	if err := m.broke.Load(); err != nil {
		return *err
	}
	return nil
}

// Read returns ErrTooMuch once the other end has sent too much.
func (m *Metered) Read(p []byte) (int, error) {
	m.leave()
	n, err := m.Conn.Read(p)
	if m.left.Add(-int64(n)) < 0 {
		n, err = 0, ErrTooMuch
	}
	if err == nil && !m.opened.Load() {
		err = m.enter()
	}
	if err != nil {
		m.note(err)
	}
	return n, err
}

// Write writes to the connection.
func (m *Metered) Write(p []byte) (int, error) {
	m.leave()
	return m.Conn.Write(p)
}

// Close closes the connection, and ends a Read that waits for its turn.
func (m *Metered) Close() error {
	m.end()
	m.leave()
	return m.Conn.Close()
}

// enter waits for the turn.
func (m *Metered) enter() error {
	ofClient, err := clientTurns.Acquire(m.closed, m.client, 1)
	if err != nil {
		return net.ErrClosed
	}
	ofNamespace, err := namespaceTurns.Acquire(m.closed, m.namespace, 1)
	if err != nil {
		ofClient.Release()
		return net.ErrClosed
	}
	m.mu.Lock()
	m.ofClient, m.ofNamespace = ofClient, ofNamespace
	m.mu.Unlock()
	if m.closed.Err() != nil || m.opened.Load() {
		m.leave()
	}
	return nil
}

// leave gives the turn back, if the connection has it.
func (m *Metered) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ofNamespace.Release()
	m.ofClient.Release()
}

// note is a function of its own, so that no error is allocated for a Read without one.
func (m *Metered) note(err error) { m.broke.CompareAndSwap(nil, &err) }
