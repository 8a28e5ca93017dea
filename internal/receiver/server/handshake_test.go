package server

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// T6: before its first request a client has proved nothing, and crypto/tls keeps its certificates, and what it parses of them. Fails when a
// client makes the process read 256 KiB of them, or when one with a usual chain and headers of full length is not answered.
func TestT6AClientSendsLittleBeforeItsFirstRequest(t *testing.T) {
	url, _ := serveTLS(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); n == 1<<20 && err == nil {
			rw.WriteHeader(http.StatusAccepted)
		}
	}), func(o *Options) { o.TLS.ClientAuth = tls.RequireAnyClientCert })
	certPEM, keyPEM := newPair(t, 1, time.Now().Add(time.Hour))
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(certPEM)
	for name, tc := range map[string]struct {
		chain    int // in bytes
		answered bool
	}{
		"a usual chain":     {8 << 10, true},
		"all that TLS lets": {240 << 10, false},
	} {
		cert := pair
		for n := len(block.Bytes); n < tc.chain; n += len(block.Bytes) {
			cert.Certificate = append(cert.Certificate, block.Bytes)
		}
		for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
			client := secureClient(t, protocol)
			client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{cert}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(strings.Repeat("x", 1<<20)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Long", strings.Repeat("x", DefaultOptions().HeaderBytes-1<<10))
			resp, err := client.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			if answered := err == nil && resp.StatusCode == http.StatusAccepted; answered != tc.answered {
				t.Errorf("%s, %s: answered: %t, %v", name, protocol, answered, err)
			}
		}
	}
}
