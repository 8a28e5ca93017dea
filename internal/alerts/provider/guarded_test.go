package provider

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

// Fails when the client skips the checks that destinations have.
func TestTheClientReachesWhatADestinationMay(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	get := func(n Network) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := n.Client().Do(r)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	if err := get(Network{}); !errors.Is(err, ErrDenied) {
		t.Errorf("the loopback: %v", err)
	}
	if err := get(Network{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}); err != nil {
		t.Errorf("the loopback, allowed: %v", err)
	}
}
