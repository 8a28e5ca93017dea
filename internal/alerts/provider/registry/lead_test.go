package registry_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
)

// noHTTP are the types whose destinations are not HTTP servers.
var noHTTP = map[string]string{"email": "it speaks SMTP", "nats": "it speaks NATS"}

// hosts are the hosts of the types that take none from their address.
var hosts = map[string]string{
	"azureeventhub": "namespace.servicebus.windows.net", "bitbucket": "api.bitbucket.org", "googlepubsub": "pubsub.googleapis.com",
	"telegram": "api.telegram.org",
}

// lead returns a Config of the type whose requests reach a sink that answers with h. For a type with a fixed host it uses a tenant's
// means: a proxy, and an authority for the host.
func lead(tb testing.TB, typ string, h http.HandlerFunc) (provider.Config, *providertest.Sink) {
	tb.Helper()
	cfg := config(typ)
	cfg.Network = providertest.Loopback()
	host := hosts[typ]
	if host == "" {
		sink := providertest.NewSink(tb, h)
		to := strings.TrimPrefix(sink.URL, "http://")
		cfg.Address = strings.Replace(strings.Replace(cfg.Address, "https://", "http://", 1), "far.test", to, 1)
		return cfg, sink
	}
	ca := providertest.NewCA(tb)
	sink := ca.NewTLSSink(tb, h, false, host)
	proxy := providertest.HTTPProxy(tb, sink.Listener.Addr(), "user", "p")
	cfg.Proxy, cfg.TLS.CA = provider.Proxy{Address: proxy.URL, Username: "user", Password: "p"}, ca.PEM()
	if typ == "googlepubsub" {
		cfg.Token, cfg.ServiceAccount = googleKey(tb), ""
	}
	return cfg, sink
}

// googleKey returns the key of a service account, which needs no other authority than that of the host.
func googleKey(tb testing.TB) string {
	tb.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		tb.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		tb.Fatal(err)
	}
	key, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "a@p.test", "private_key_id": "1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return string(key)
}
