package embedded

import (
	"fmt"
	"net"
)

// maxWrite is the most bytes that are written at a time to the embedded server. After each read that fills its buffer the server makes one
// of twice the size, of up to 64 KiB, and after three small reads one of half the size. With the client's writes of up to 32 KiB between
// small ones it made many large buffers a second: a fifteenth of all garbage under a full load of events.
const maxWrite = 4 << 10

// InProcessConn returns a connection to the server that needs no socket. It is nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) {
	c, err := s.Server.InProcessConn()
	if err != nil {
		return nil, fmt.Errorf("connect within the process: %w", err)
	}
	return portions{c}, nil
}

// portions is a connection that writes at most maxWrite bytes at a time.
type portions struct{ net.Conn }

func (c portions) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		var wrote int
		wrote, err = c.Conn.Write(p[:min(len(p), maxWrite)])
		p, n = p[wrote:], n+wrote
	}
	return n, err
}
