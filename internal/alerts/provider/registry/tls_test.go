package registry_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/event"
)

// forClients starts a server whose certificate is one for clients. It returns its address, and the certificate as an authority.
func forClients(t *testing.T) (address string, ca []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{{127, 0, 0, 1}},
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// withoutTLS starts a server of mail that offers no STARTTLS, for one session, and returns its address.
func withoutTLS(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = fmt.Fprint(c, "220 mail.test\r\n")
		for lines := bufio.NewScanner(c); lines.Scan(); {
			_, _ = fmt.Fprint(c, "250 mail.test\r\n")
		}
	}()
	return "smtp://" + l.Addr().String() + "?from=flux@example.com"
}

// Fails when the owner of a Provider is told that TLS failed, and nothing to do.
func TestNoFailureOfTLSIsWithoutAdvice(t *testing.T) {
	web, ca := forClients(t)
	for typ, address := range map[string]string{"generic": web, "email": withoutTLS(t)} {
		cfg := config(typ)
		cfg.Address, cfg.Network, cfg.TLS.CA = address, providertest.Loopback(), ca
		s, err := registry.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		e := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["error"]))
		if advice := provider.Advice(e); e.Label != provider.LabelTLS || !strings.Contains(advice, "scheme and port") {
			t.Errorf("%s: label %s, %s; %q", typ, e.Label, e, advice)
		}
		_ = s.Close()
	}
}
