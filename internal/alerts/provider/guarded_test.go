package provider

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"
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
		resp, err := n.Client("team-a").Do(r)
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

// T6: fails when the certificates of a namespace's issuers are verified at once, a quarter of a second of a processor each, or when another
// namespace's wait for them.
func TestT6TheHandshakesOfANamespacesIssuersAreProcessedInTurns(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	loopback := Network{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	// get asks the server for a namespace, and calls verified in the handshake.
	get := func(ctx context.Context, namespace string, verified func()) error {
		client := loopback.Client(namespace)
		config := defaultTLS()
		config.InsecureSkipVerify = true
		config.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error { verified(); return nil }
		client.Transport.(guarded).http.TLSClientConfig = config
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Error(err)
			return err
		}
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	begun, proceed, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- get(t.Context(), "team-a", func() {
			close(begun)
			<-proceed
		})
	}()
	<-begun
	brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := get(brief, "team-a", func() {
		select {
		case <-proceed: // net/http goes on with a connection that its request has given up
		default:
			t.Error("two handshakes of a namespace are processed at once")
		}
	})
	if err == nil {
		t.Error("the second does not wait")
	}
	if err := get(t.Context(), "team-b", func() {}); err != nil {
		t.Errorf("another namespace: %v", err)
	}
	close(proceed)
	if err := <-done; err != nil {
		t.Errorf("the first: %v", err)
	}
	if err := get(t.Context(), "team-a", func() {}); err != nil {
		t.Errorf("the next: %v", err)
	}
}

// T6: fails when an answer is read for as long as it comes, or when one of the longest of an issuer is not read.
func TestT6WhatAnIssuerSendsIsBounded(t *testing.T) {
	const longest = 256 << 10
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := longest
		if r.URL.Path == "/longer" {
			size = 4 * guardedBytes
		}
		_, _ = w.Write(make([]byte, size))
	}))
	defer server.Close()
	client := Network{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}.Client("team-a")
	for path, bound := range map[string]int64{"/": longest, "/longer": guardedBytes} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		if (err == nil) != (bound == longest) || n > bound {
			t.Errorf("%s: %d bytes are read (%v)", path, n, err)
		}
		_ = resp.Body.Close()
	}
}
