package provider

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"testing"
)

// TestT6TheConnectionsKeptByANamespaceAreBounded is T6: Providers that were all sent something, as many as a tenant cares to make, do not
// keep the process's memory and file descriptors, and another namespace keeps its own. Fails when a connection without a place is kept, or
// when a closed one keeps its place.
func TestT6TheConnectionsKeptByANamespaceAreBounded(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	post := func(c *Client) *Client {
		if err := c.Post(t.Context(), Request{Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		return c
	}
	client := func(namespace string) *Client {
		c, err := NewClient(Config{
			Address: s.URL, Namespace: namespace, Network: Network{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		}, ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var greedy []*Client
	for range keptConns + 50 {
		greedy = append(greedy, post(client("greedy")))
	}
	if n := openOf(greedy...); n != keptConns {
		t.Errorf("%d Providers keep %d connections, want %d", len(greedy), n, keptConns)
	}
	modest := post(client("modest"))
	if n := openOf(modest); n != 1 {
		t.Errorf("a Provider of another namespace keeps %d connections, want 1", n)
	}
	for _, c := range append(greedy, modest) {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	again := post(client("greedy"))
	defer again.Close()
	if n := openOf(append(greedy, again)...); n != 1 {
		t.Errorf("when the others are closed, %d connections are kept, want the one of the client that is open", n)
	}
}

// openOf counts the open connections of clients.
func openOf(clients ...*Client) (n int) {
	for _, c := range clients {
		c.conns.mu.Lock()
		n += len(c.conns.open)
		c.conns.mu.Unlock()
	}
	return n
}

// T6: fails when each send of a client within one of another client, as a login is, adds to what later ones call and keep: a tenant whose
// server gives a token of no duration adds to it by every event, until the stack ends the process. Also fails when the other client counts
// the connection as its own.
func TestT6ASendWithinOneOfAnotherClientCostsTheSameEachTime(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	outer, login := toLoopback(t, s.URL, nil, ClientOptions{MaxReply: 1 << 20}), toLoopback(t, s.URL, nil, ClientOptions{})
	for range 10 {
		if err := outer.Call(t.Context(), func(ctx context.Context) error { return login.Post(ctx, Request{}) }); err != nil {
			t.Fatal(err)
		}
	}
	conn := &countedConn{in: &login.conns}
	login.trace.GotConn(httptrace.GotConnInfo{Conn: conn})
	if got, want := conn.left.Load(), login.conns.most; got != want {
		t.Errorf("after ten sends a connection may have %d bytes, want %d", got, want)
	}
	for c := range login.conns.open {
		conn = c
	}
	if err := outer.Call(t.Context(), func(ctx context.Context) error {
		return login.Call(ctx, func(ctx context.Context) error {
			_, err := login.Do(ctx, Request{})
			if got, want := conn.left.Load(), idleBytes+login.conns.most; got > want {
				t.Errorf("within a send of another client a connection may have %d bytes, want %d at most", got, want)
			}
			return err
		})
	}); err != nil {
		t.Fatal(err)
	}
}
