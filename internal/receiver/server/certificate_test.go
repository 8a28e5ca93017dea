package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/receiver/receivertest"
)

// pairFiles are a certificate and a key in files.
type pairFiles struct{ cert, key string }

func newPairFiles(t testing.TB) pairFiles {
	dir := t.TempDir()
	return pairFiles{cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key")}
}

func write(t testing.TB, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// newPair makes a certificate of 127.0.0.1 with a serial number and its key, in PEM.
func newPair(t testing.TB, serial int64, expires time.Time) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Unix(0, 0), NotAfter: expires, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// newCertificate reads a pair that expires in 2100.
func newCertificate(t testing.TB) *Certificate {
	t.Helper()
	files := newPairFiles(t)
	cert, key := newPair(t, 1, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))
	write(t, files.cert, cert)
	write(t, files.key, key)
	c, err := NewCertificate("test", files.cert, files.key, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Fails when the files are read only once, when a broken or half written pair replaces the old one, when one failure is counted again and
// again, or when the log quotes the key.
func TestACertificateIsReadAgainAndABrokenOneChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newPairFiles(t)
		expires := time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)
		oldCert, oldKey := newPair(t, 1, expires)
		newCert, newKey := newPair(t, 2, expires.AddDate(1, 0, 0))
		write(t, files.cert, oldCert)
		write(t, files.key, oldKey)
		var lines receivertest.Buffer
		registry := prometheus.NewRegistry()
		c, err := NewCertificate("test", files.cert, files.key, slog.New(slog.NewTextHandler(&lines, nil)), registry)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		for _, step := range []struct {
			name           string
			change         func()
			serial         int64
			reloads, fails float64
		}{
			{"nothing", func() {}, 1, 0, 0},
			{"garbage", func() { write(t, files.key, []byte("garbage")) }, 1, 0, 1},
			{"the same garbage", func() {}, 1, 0, 1},
			{"a file that is gone", func() { _ = os.Remove(files.key) }, 1, 0, 2},
			{"the same", func() {}, 1, 0, 2},
			{"the old pair again", func() { write(t, files.key, oldKey) }, 1, 1, 2},
			{"half of the new pair", func() { write(t, files.cert, newCert) }, 1, 1, 3},
			{"the new pair", func() { write(t, files.key, newKey) }, 2, 2, 3},
		} {
			step.change()
			elapse(certificatePoll)
			synctest.Wait()
			served, err := c.Config().GetCertificate(nil)
			if err != nil || served.Leaf.SerialNumber.Int64() != step.serial {
				t.Errorf("%s: certificate %v is served, want %d", step.name, served.Leaf.SerialNumber, step.serial)
			}
			if got := testutil.ToFloat64(c.reloads); got != step.reloads {
				t.Errorf("%s: %v reloads, want %v", step.name, got, step.reloads)
			}
			if got := testutil.ToFloat64(c.failures); got != step.fails {
				t.Errorf("%s: %v failures, want %v", step.name, got, step.fails)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		gathered, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range gathered {
			if family.GetName() == "notifier_tls_certificate_expiry_timestamp_seconds" &&
				family.GetMetric()[0].GetGauge().GetValue() != float64(expires.AddDate(1, 0, 0).Unix()) {
				t.Error("the metric does not say when the new certificate expires")
			}
		}
		for _, key := range [][]byte{oldKey, newKey, []byte("garbage")} {
			if body := bytes.Split(key, []byte("\n")); strings.Contains(lines.String(), string(body[min(1, len(body)-1)])) {
				t.Error("the log quotes a key")
			}
		}
	})
}

func TestAProcessDoesNotStartWithoutAGoodCertificate(t *testing.T) {
	files := newPairFiles(t)
	cert, _ := newPair(t, 1, time.Unix(1<<32, 0))
	_, otherKey := newPair(t, 2, time.Unix(1<<32, 0))
	for name, change := range map[string]func(){
		"no files":      func() {},
		"another's key": func() { write(t, files.cert, cert); write(t, files.key, otherKey) },
	} {
		change()
		if _, err := NewCertificate("test", files.cert, files.key, slog.New(slog.DiscardHandler), nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// serveTLS serves h with a certificate until the test ends.
func serveTLS(t testing.TB, h http.Handler, change func(*Options)) (url string, s *Server) {
	t.Helper()
	_, s = serveReal(t, h, func(o *Options) {
		o.TLS = newCertificate(t).Config()
		if change != nil {
			change(o)
		}
	})
	return "https://" + s.Addr().String(), s
}

// secureClient returns a client of its own that accepts any certificate and speaks these protocols.
func secureClient(t testing.TB, protocols ...string) *http.Client {
	t.Helper()
	var set http.Protocols
	for _, p := range protocols {
		set.SetHTTP1(set.HTTP1() || p == "HTTP/1.1")
		set.SetHTTP2(set.HTTP2() || p == "HTTP/2.0")
	}
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		Protocols:       &set,
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

// Fails when a listener with a certificate speaks less than HTTP/1 and HTTP/2, or TLS older than 1.2.
func TestWithACertificateTheListenerIsHTTPSWithBothVersions(t *testing.T) {
	hook := newHook(t, "team-a/hook")
	w := newWebhooks(t, receivertest.Stored, hook)
	var protocol string
	url, s := serveTLS(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		protocol = r.Proto
		w.ServeHTTP(rw, r)
	}), nil)
	for _, want := range []string{"HTTP/1.1", "HTTP/2.0"} {
		if status, err := send(t.Context(), secureClient(t, want), url+hook.Path, token, "{}"); err != nil || status != http.StatusOK {
			t.Errorf("%s: %d, %v", want, status, err)
		}
		if protocol != want {
			t.Errorf("spoke %s, want %s", protocol, want)
		}
	}
	for version, ok := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		dialer := tls.Dialer{Config: &tls.Config{
			InsecureSkipVerify: true, MinVersion: version, MaxVersion: version,
		}}
		c, err := dialer.DialContext(t.Context(), "tcp", s.Addr().String())
		if (err == nil) != ok {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}

// Fails when HTTP/2 is spoken in clear text, where nothing here limits it.
func TestClearTextIsHTTP1Alone(t *testing.T) {
	_, s := serveReal(t, newWebhooks(t, receivertest.Stored), nil)
	for name, text := range map[string]string{
		"the preface of HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"an upgrade":            "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
	} {
		status, err := answerOn(dial(t, s, text))
		if err != nil || status != http.StatusNotFound {
			t.Errorf("%s: %d, %v", name, status, err)
		}
	}
}

// Fails when a TLS connection that serves a request counts as waiting for one: it would be evicted first.
func TestATLSConnectionAtWorkIsNotEvictedBeforeAWaitingConnection(t *testing.T) {
	cs := newConns(2, false, func() {})
	first, second := newPipe("192.0.2.1"), newPipe("192.0.2.1")
	busy := cs.admit(first)
	cs.admit(second)
	cs.state(tls.Server(busy, nil), http.StateActive)
	if cs.admit(newPipe("192.0.2.2")) == nil || *first.closed || !*second.closed {
		t.Error("not the connection that waits was given up")
	}
}

// Fails when the log is silent about a certificate that expires soon or has expired, or has a line at each read of the files.
func TestACertificateThatExpiresIsLoggedOnceADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newPairFiles(t)
		cert, key := newPair(t, 1, time.Now().Add(expiresSoon+12*time.Hour))
		write(t, files.cert, cert)
		write(t, files.key, key)
		var lines receivertest.Buffer
		c, err := NewCertificate("test", files.cert, files.key, slog.New(slog.NewTextHandler(&lines, nil)), prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		for want, after := range []time.Duration{6 * time.Hour, 24 * time.Hour, 24 * time.Hour} {
			elapse(after)
			synctest.Wait()
			if got := strings.Count(lines.String(), "expires within a week"); got != want {
				t.Errorf("%d lines, want %d", got, want)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
