package app

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// metricName matches the metrics of this process, also those under known names of others, in the documentation and in a registry's
// descriptions.
var metricName = regexp.MustCompile(`\b(notifier|gotk|rest_client)_[a-z_]+`)

// Fails when a metric is added, renamed or dropped and the table of the documentation is not changed.
func TestEveryMetricIsInTheTableOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Metrics\n")
	table, _, _ = strings.Cut(table, "\n## ")
	told := map[string]bool{}
	for _, name := range metricName.FindAllString(table, -1) {
		told[name] = true
	}
	if diff := cmp.Diff(registered(t), told); diff != "" {
		t.Errorf("metrics of the process and of docs/operations.md (-registered +told):\n%s", diff)
	}
}

// registered returns the names of the metrics of a process with every listener, with or without a value yet.
func registered(t *testing.T) map[string]bool {
	t.Helper()
	o := DefaultOptions()
	o.EventsAddr, o.ReceiverAddr, o.MetricsAddr, o.HealthAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	o.APIAddr = "127.0.0.1:0"
	o.DataDir, o.LogOutput = t.TempDir(), io.Discard
	o.TLSCertFile, o.TLSKeyFile = certificateFiles(t)
	o.APITLSCertFile, o.APITLSKeyFile = o.TLSCertFile, o.TLSKeyFile
	o.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	write(t, o.Kubeconfig, []byte(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}],
		clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]}`))
	a, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		for _, l := range a.listeners { // the end of their run closes them
			if err := l.run(ended); err != nil {
				t.Error(err)
			}
		}
		if err := a.closeBus(context.Background()); err != nil {
			t.Error(err)
		}
	})
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		a.registry.Describe(descriptions)
	}()
	names := map[string]bool{}
	for d := range descriptions {
		if name := metricName.FindString(d.String()); strings.HasPrefix(d.String(), `Desc{fqName: "`+name) {
			names[name] = true
		}
	}
	delete(names, "")
	return names
}

// certificateFiles writes a certificate and its key for --tls-cert-file and --tls-key-file.
func certificateFiles(t *testing.T) (certificate, key string) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	pair := s.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write(t, certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))
	write(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	return certificate, key
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
