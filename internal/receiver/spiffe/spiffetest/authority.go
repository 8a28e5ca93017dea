// Package spiffetest is a SPIFFE runtime for tests: certificate authorities of trust domains, and a Workload API on a Unix socket.
package spiffetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/url"
	"testing"
	"time"
)

// Authority is the certificate authority of a trust domain.
type Authority struct {
	Domain string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	// above are the certificates of the authorities that lead to the trust domain's, from its own on.
	above [][]byte
}

// NewAuthority returns a new authority of a trust domain.
func NewAuthority(t testing.TB, domain string) *Authority {
	t.Helper()
	a := &Authority{Domain: domain, key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, URIs: []*url.URL{a.id(t, "")},
	}
	a.cert = sign(t, template, template, &a.key.PublicKey, a.key)
	return a
}

// Below returns an authority whose certificate this one has signed. Its SVIDs have the certificates of the authorities between.
func (a *Authority) Below(t testing.TB) *Authority {
	t.Helper()
	b := &Authority{Domain: a.Domain, key: newKey(t)}
	template := *a.cert
	template.SerialNumber = big.NewInt(int64(len(a.above)) + 3)
	b.cert = sign(t, &template, a.cert, &b.key.PublicKey, a.key)
	b.above = append([][]byte{b.cert.Raw}, a.above...)
	return b
}

// SVID returns an X509-SVID of the ID "spiffe://<domain><path>" that lasts for a time from now on.
func (a *Authority) SVID(t testing.TB, path string, lasts time.Duration) tls.Certificate {
	t.Helper()
	return a.Certificate(t, lasts, a.id(t, path).String())
}

// Certificate returns a certificate with any number of IDs. One with another number than one is no X509-SVID.
func (a *Authority) Certificate(t testing.TB, lasts time.Duration, ids ...string) tls.Certificate {
	t.Helper()
	var uris []*url.URL
	for _, id := range ids {
		uris = append(uris, parse(t, id))
	}
	key, end := newKey(t), time.Now().Add(lasts)
	leaf := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: end.Add(-time.Hour), NotAfter: end, URIs: uris, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &key.PublicKey, a.key)
	return tls.Certificate{Certificate: append([][]byte{leaf.Raw}, a.above...), PrivateKey: key, Leaf: leaf}
}

// Own returns the authority's own certificate.
func (a *Authority) Own() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{a.cert.Raw}, PrivateKey: a.key, Leaf: a.cert}
}

func (a *Authority) id(t testing.TB, path string) *url.URL {
	t.Helper()
	return parse(t, "spiffe://"+a.Domain+path)
}

func parse(t testing.TB, id string) *url.URL {
	t.Helper()
	u, err := url.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, public *ecdsa.PublicKey, signer *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
