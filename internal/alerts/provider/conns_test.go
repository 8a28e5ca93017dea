package provider

import (
	"net/http"
	"net/http/httptest"
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
		c.base.conns.mu.Lock()
		n += len(c.base.conns.open)
		c.base.conns.mu.Unlock()
	}
	return n
}
