package env

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Far is a Sink in the place of hosts of the Internet, for Providers whose type fixes its host. A tenant directs such a
// Provider to it as to a gateway of its own: by a proxy, and with an authority for the hosts.
type Far struct {
	*Sink
	// CA is the authority, in PEM.
	CA []byte

	hosts []string
	proxy *http.Server
	addr  string
}

// NewFar starts a Sink for the hosts, each of port 443, and the proxy.
func NewFar(hosts ...string) (*Far, error) {
	pair, ca, err := authorityFor(hosts)
	if err != nil {
		return nil, err
	}
	sink, err := newSink()
	if err != nil {
		return nil, err
	}
	f := &Far{Sink: sink, CA: ca}
	for _, host := range hosts {
		f.hosts = append(f.hosts, net.JoinHostPort(host, "443"))
	}
	f.tls = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if err := f.Up(context.Background()); err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f.addr = listener.Addr().String()
	f.proxy = &http.Server{ReadHeaderTimeout: 30 * time.Second, Handler: http.HandlerFunc(f.connect)}
	go func() { _ = f.proxy.Serve(listener) }()
	return f, nil
}

// Close ends the proxy and the Sink.
func (f *Far) Close() error {
	err := f.proxy.Close()
	if down := f.Down(); down != nil {
		return down
	}
	return err
}

// connect connects requests for its hosts to the Sink, and refuses the rest.
func (f *Far) connect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect || !slices.Contains(f.hosts, r.Host) {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	up, err := new(net.Dialer).DialContext(r.Context(), "tcp", f.Addr())
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	down, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = up.Close()
		return
	}
	_, _ = io.WriteString(down, "HTTP/1.1 200 OK\r\n\r\n")
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{up, down}, {down, up}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_, _ = way[0].Close(), way[1].Close()
		})
	}
	both.Wait()
}

// Proxy returns the address of the proxy.
func (f *Far) Proxy() string { return "http://" + f.addr }

// FarProvider is the spec and the Secret of a Provider that is directed to a Far.
type FarProvider struct {
	Type, Channel string
	Secret        map[string]string
}

// Alert is [Tenant.Alert] for a Provider that is directed to f, on every Kustomization.
func (f *Far) Alert(ctx context.Context, t *Tenant, name string, p FarProvider) error {
	for secret, data := range map[string]map[string]string{
		name: p.Secret, name + "-proxy": {"address": f.Proxy()}, name + "-ca": {"ca.crt": string(f.CA)},
	} {
		if err := t.Secret(ctx, secret, data); err != nil {
			return err
		}
	}
	spec := fmt.Sprintf(`{"type":%q,"channel":%q,"secretRef":{"name":%q},"proxySecretRef":{"name":%q},"certSecretRef":{"name":%q}}`,
		p.Type, p.Channel, name, name+"-proxy", name+"-ca")
	if err := t.Object(ctx, "Provider", name, nil, spec); err != nil {
		return err
	}
	return t.alertBy(ctx, name, AnyKustomization)
}

// authorityFor returns a certificate for hosts and the authority that signed it.
func authorityFor(hosts []string) (pair tls.Certificate, ca []byte, err error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, nil, err
	}
	from, to := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	signed, err := x509.CreateCertificate(rand.Reader, authority, authority, caKey.Public(), caKey)
	if err != nil {
		return pair, nil, err
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: to, DNSNames: hosts, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, server, authority, key.Public(), caKey)
	if err != nil {
		return pair, nil, err
	}
	pair = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return pair, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), nil
}
