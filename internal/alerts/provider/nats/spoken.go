package nats

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strconv"

	"notifier/internal/alerts/provider"
)

const (
	// maxMessage is the length of the longest message that a server may send, in bytes. A stream's acknowledgement has some hundred.
	maxMessage = 64 << 10
	// maxLine is the length of the longest line, in bytes. A large cluster's INFO has some ten thousand.
	maxLine = 256 << 10
)

// errSpoken means that a server violates the protocol or sends more than it may. It wraps provider.ErrTooMuch.
var errSpoken = errors.Join(provider.ErrTooMuch, errors.New("the server does not keep to the protocol"))

// errGreeting means that the first line of a server, which speaks first, was not read.
var errGreeting = errors.New("no greeting")

// spoken is a connection whose Read fails once the other end violates the protocol. The library allocates a message's announced length
// before any of the message arrives, in a goroutine of its own: an unbounded length ends the process.
//
// The library's parser accepts irregular lines, which it might read differently from this one. So a line that does not end in CR LF or
// has another CR within it ends the connection.
type spoken struct {
	net.Conn
	first []byte // read already
	line  []byte
	// left is the number of bytes of a message and its CR LF that are still to be read.
	left int
}

func (s *spoken) Read(p []byte) (int, error) {
	if len(s.first) > 0 {
		n := copy(p, s.first)
		s.first = s.first[n:]
		return n, s.follow(p[:n])
	}
	n, err := s.Conn.Read(p)
	if fault := s.follow(p[:n]); fault != nil {
		return 0, fault
	}
	return n, err
}

// follow checks the next bytes of the server.
func (s *spoken) follow(said []byte) error {
	for _, c := range said {
		switch {
		case s.left > 0:
			s.left--
			if s.left == 1 && c != '\r' || s.left == 0 && c != '\n' {
				return errSpoken
			}
		case c != '\n':
			if s.line = append(s.line, c); len(s.line) > maxLine {
				return errSpoken
			}
		default:
			if err := s.end(); err != nil {
				return err
			}
			s.line = s.line[:0]
		}
	}
	return nil
}

// end checks a whole line. A line with one of these first letters announces a message, "MSG <subject> <sid> [reply-to] <bytes>" or the
// same with headers.
func (s *spoken) end() error {
	line, ok := bytes.CutSuffix(s.line, []byte("\r"))
	if !ok || bytes.IndexByte(line, '\r') >= 0 {
		return errSpoken
	}
	if len(line) == 0 || bytes.IndexByte([]byte("MmHh"), line[0]) < 0 {
		return nil
	}
	fields := bytes.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	size, err := strconv.ParseUint(string(fields[len(fields)-1]), 10, 32)
	if err != nil || size > maxMessage {
		return errSpoken
	}
	s.left = int(size) + len("\r\n")
	return nil
}

// greet reads a server's first line, and starts TLS if the server requires it, or if it offers TLS and secure is set. The returned
// connection is checked within TLS. The library reads the line again, and refuses a server without TLS.
func greet(ctx context.Context, c net.Conn, secure bool, config *tls.Config) (net.Conn, error) {
	var line []byte
	for next := make([]byte, 1); !bytes.HasSuffix(line, []byte("\n")); line = append(line, next[0]) {
		if len(line) == maxLine {
			return nil, errSpoken
		}
		if _, err := io.ReadFull(c, next); err != nil {
			return nil, errors.Join(errGreeting, err)
		}
	}
	var info struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	if _, text, ok := bytes.Cut(line, []byte(" ")); ok {
		_ = json.Unmarshal(text, &info) // the library reports a line that is no INFO
	}
	if info.Required || secure && info.Available {
		secured := tls.Client(c, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		c = secured
	}
	return &spoken{Conn: c, first: line}, nil
}
