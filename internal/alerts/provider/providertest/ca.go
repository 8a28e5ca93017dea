package providertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is a certificate authority of one test.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA returns a new authority.
func NewCA(tb testing.TB) *CA {
	tb.Helper()
	ca, err := newCA()
	if err != nil {
		tb.Fatal(err)
	}
	return ca
}

// NewSystemCA returns a new authority that the process trusts as one of the system's. It has to be called before the tests run, for a
// variable of the package: a process reads the system's authorities once.
func NewSystemCA() *CA {
	ca, err := newCA()
	if err == nil {
		err = ca.becomeSystem()
	}
	if err != nil {
		panic(err)
	}
	return ca
}

func (ca *CA) becomeSystem() error {
	dir, err := os.MkdirTemp("", "authorities")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "ca.pem")
	if err := errors.Join(os.WriteFile(file, ca.PEM(), 0o600), os.Setenv("SSL_CERT_FILE", file), os.Setenv("SSL_CERT_DIR", dir)); err != nil {
		return err
	}
	_, err = x509.SystemCertPool() // reads the file
	return err
}

func newCA() (*CA, error) {
	ca := &CA{}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, key, err := ca.issue(template)
	if err != nil {
		return nil, err
	}
	ca.key = key
	ca.cert, err = x509.ParseCertificate(der)
	return ca, err
}

// issue signs template for a new key. An authority without a certificate signs its own.
func (ca *CA) issue(template *x509.Certificate) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := ca.cert, ca.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	return der, key, err
}

// PEM returns the authority's certificate.
func (ca *CA) PEM() []byte { return encode("CERTIFICATE", ca.cert.Raw) }

// Issue returns a certificate and key in PEM for the hosts, names or IP addresses. It is valid for servers and clients.
func (ca *CA) Issue(tb testing.TB, hosts ...string) (cert, key []byte) {
	tb.Helper()
	template := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, k, err := ca.issue(template)
	if err != nil {
		tb.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		tb.Fatal(err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8)
}

// NewTLSSink starts an https Sink, with HTTP/2 too, that has a certificate of ca for the hosts. With clients it requires a client
// certificate of ca.
func (ca *CA) NewTLSSink(tb testing.TB, h http.HandlerFunc, clients bool, hosts ...string) *Sink {
	tb.Helper()
	s := ca.newTLSSink(tb, h, clients, hosts...)
	s.StartTLS()
	tb.Cleanup(s.Close)
	return s
}

func (ca *CA) newTLSSink(tb testing.TB, h http.HandlerFunc, clients bool, hosts ...string) *Sink {
	tb.Helper()
	s := newSink(h)
	s.EnableHTTP2 = true
	s.TLS = serverTLS(tb, ca, clients, hosts...)
	quiet(s)
	return s
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
