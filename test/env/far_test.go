package env_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"testing"
	"time"

	"notifier/test/env"
)

// Fails when a request for another host than those of a Far reaches it, or when its certificate is valid for others.
func TestAFarSinkIsReachedByItsProxyAndForItsHosts(t *testing.T) {
	far, err := env.NewFar("here.test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(far.CA)
	proxy, err := url.Parse(far.Proxy())
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: pool}}}
	t.Cleanup(client.CloseIdleConnections)
	for address, want := range map[string]bool{"https://here.test/a": true, "https://there.test/a": false, "https://here.test:8443/a": false} {
		req, err := http.NewRequestWithContext(within(t, time.Minute), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	if got := far.Received(); len(got) != 1 || got[0].Path != "/a" {
		t.Errorf("received %+v", got)
	}
}
