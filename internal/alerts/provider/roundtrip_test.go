package provider

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

// Fails when a client allocates its transport before it sends: thousands of idle Providers would do so.
func TestAClientHasNoTransportBeforeItsFirstRequest(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	loopback := Network{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	resting, err := NewClient(Config{Address: s.URL, Network: loopback}, ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if resting.transport.Load() != nil || resting.tls != nil {
		t.Error("a client that sent nothing has a transport")
	}
	if err := resting.Close(); err != nil {
		t.Error(err)
	}
	c, err := NewClient(Config{Address: s.URL, Network: loopback}, ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Post(t.Context(), Request{Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	made := c.transport.Load()
	if made == nil || made.TLSClientConfig.MinVersion < tls.VersionTLS12 {
		t.Errorf("after a request: %+v", made)
	}
}
