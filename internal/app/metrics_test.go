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
	"slices"
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
	has := map[string]bool{}
	for name := range registered(t) {
		has[name] = true
	}
	if diff := cmp.Diff(has, told); diff != "" {
		t.Errorf("metrics of the process and of docs/operations.md (-registered +told):\n%s", diff)
	}
}

// metricNamed matches a metric of this process with the labels that are named with it.
var metricNamed = regexp.MustCompile(`\b((?:notifier|gotk_event|rest_client)_[a-z_]+[a-z])(?:\{([^}\n]*)\})?`)

// labelKey matches the name of a label in a query.
var labelKey = regexp.MustCompile(`^\w+`)

// Fails when a page, or a rule for Prometheus, names a metric that does not exist, or a label that the metric does not have: the query finds
// nothing, and a rule never fires.
func TestEveryMetricThatAPageOrARuleNamesExists(t *testing.T) {
	has := registered(t)
	named := 0
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/providers/*.md", "config/*/README.md", "config/monitoring/*.yaml"} {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range metricNamed.FindAllStringSubmatch(string(text), -1) {
				named++
				labels, ok := has[m[1]]
				if !ok {
					labels, ok = has[strings.TrimSuffix(m[1], "_bucket")]
				}
				if !ok {
					t.Errorf("%s: there is no metric %s", file, m[1])
				}
				for label := range strings.SplitSeq(m[2], ",") {
					if key := labelKey.FindString(label); ok && key != "" && !slices.Contains(labels, key) {
						t.Errorf("%s: %s has the labels %q, and not %s", file, m[1], labels, key)
					}
				}
			}
		}
	}
	if named < 100 {
		t.Errorf("only %d were found", named)
	}
}

// descriptionLabels matches the names of the labels in a metric's description, constant ones with a value and the others without.
var descriptionLabels = regexp.MustCompile(`constLabels: \{(.*?)\}, variableLabels: \{(.*?)\}`)

// labelsOf returns the names of a metric's labels.
func labelsOf(d *prometheus.Desc) []string {
	names := []string{}
	for _, list := range descriptionLabels.FindStringSubmatch(d.String())[1:] {
		for label := range strings.SplitSeq(list, ",") {
			if name, _, _ := strings.Cut(label, "="); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// Fails when a metric has a value of a label, which an operator reads in an alarm and an owner in a status, that no page explains.
func TestEveryValueOfALabelIsExplained(t *testing.T) {
	var pages [2]string
	for i, name := range []string{"operations.md", "providers.md"} {
		page, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		pages[i] = string(page)
	}
	_, classes, _ := strings.Cut(pages[1], "\n### Classes of failures\n")
	families, err := process(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := 0
	for _, family := range families {
		// One row explains the values of a metric.
		_, row, _ := strings.Cut(pages[0], "\n| `"+family.GetName()+"` | ")
		row, _, _ = strings.Cut(row, "\n")
		within := map[string]string{"result": row, "outcome": row, "reason": classes}
		for _, series := range family.GetMetric() {
			for _, label := range series.GetLabel() {
				text, explained := within[label.GetName()]
				if !explained {
					continue
				}
				if values++; !strings.Contains(text, "`"+label.GetValue()+"`") {
					t.Errorf("no page explains %s=%q of %s", label.GetName(), label.GetValue(), family.GetName())
				}
			}
		}
	}
	if values < 60 {
		t.Errorf("only %d values were found", values)
	}
}

// registered returns the metrics of a process with every listener, with or without a value yet, and the labels of each.
func registered(t *testing.T) map[string][]string {
	t.Helper()
	registry := process(t)
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		registry.Describe(descriptions)
	}()
	metrics := map[string][]string{}
	for d := range descriptions {
		if name := metricName.FindString(d.String()); strings.HasPrefix(d.String(), `Desc{fqName: "`+name) {
			metrics[name] = labelsOf(d)
		}
	}
	delete(metrics, "")
	return metrics
}

// process returns the metrics of a process with every listener.
func process(t *testing.T) *prometheus.Registry {
	t.Helper()
	o := processOptions(t)
	o.TLSCertFile, o.TLSKeyFile = certificateFiles(t)
	o.APITLSCertFile, o.APITLSKeyFile = o.TLSCertFile, o.TLSKeyFile
	o.AuthorizedNotifiers, o.SPIFFESocket = []string{"spiffe://self"}, "unix:///nowhere"
	a := newApp(t, o)
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		for _, l := range a.listeners { // the end of their run closes them
			if err := l.run(ended); err != nil {
				t.Error(err)
			}
		}
	})
	return a.registry
}

// processOptions returns those of a process with every listener, whose API server is away.
func processOptions(t *testing.T) Options {
	t.Helper()
	o := DefaultOptions()
	o.EventsAddr, o.ReceiverAddr, o.MetricsAddr, o.HealthAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	o.APIAddr = "127.0.0.1:0"
	o.DataDir, o.LogOutput = t.TempDir(), io.Discard
	o.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	write(t, o.Kubeconfig, []byte(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}],
		clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]}`))
	return o
}

// newApp returns a process that listens. Its bus is closed when the test ends.
func newApp(t *testing.T, o Options) *App {
	t.Helper()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	a, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.closeBus(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return a
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
