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
	// maxMessage is the longest message that a server may send, in bytes: a stream's acknowledgement has some hundred.
	maxMessage = 64 << 10
	// maxLine is the longest line, in bytes. A large cluster's INFO has some ten thousand.
	maxLine = 256 << 10
)

// errSpoken says that a server does not keep to the protocol or sends more than it may. It stands for provider.ErrTooMuch.
var errSpoken = errors.Join(provider.ErrTooMuch, errors.New("the server does not keep to the protocol"))

// spoken is a connection whose other end keeps to the protocol. The library makes room for a message as long as the server says that it is,
// before any of it has come, in a goroutine of its own: a length without bounds ends the process.
//
// The library's parser takes lines that others would not. What it might read otherwise than this one does, a line that does not end in
// CR LF or has another CR within, ends the connection.
type spoken struct {
	net.Conn
	first []byte // read already
	line  []byte
	// left is how many bytes of a message and its CR LF are still to come.
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

// follow reads on in what the server says.
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

// end reads a line. One that begins so is that of a message, "MSG <subject> <sid> [reply-to] <bytes>", or the same with headers.
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

// greet reads a server's first line, and has the connection encrypted where secure or the server wants it: what is said is followed within
// TLS. A server that has none is the library's to refuse, which reads the line again.
func greet(ctx context.Context, c net.Conn, secure bool, config *tls.Config) (net.Conn, error) {
	var line []byte
	for next := make([]byte, 1); !bytes.HasSuffix(line, []byte("\n")); line = append(line, next[0]) {
		if len(line) == maxLine {
			return nil, errSpoken
		}
		if _, err := io.ReadFull(c, next); err != nil {
			return nil, err
		}
	}
	var info struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	if _, text, ok := bytes.Cut(line, []byte(" ")); ok {
		_ = json.Unmarshal(text, &info) // the library tells what is no INFO
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
