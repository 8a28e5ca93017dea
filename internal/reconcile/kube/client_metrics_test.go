package kube

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"notifier/internal/builtin"
)

// Fails when the requests of a client are not counted by their status, or when an undefined status makes a series.
func TestRequestsToTheAPIServerAreCounted(t *testing.T) {
	status := http.StatusTeapot
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	reg := prometheus.NewRegistry()
	CountClientRequests(reg)
	client, err := builtin.NewClient(&rest.Config{Host: server.URL}, corev1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	for _, status = range []int{http.StatusTeapot, http.StatusTeapot, 666} {
		if client.Get().Resource("pods").Do(t.Context()).Error() == nil {
			t.Fatal("the answer is none of an API server")
		}
	}
	// Other tests of the package make other requests.
	want := map[string]float64{"418": 2, "<error>": 1}
	for code, n := range want {
		if got := testutil.ToFloat64(clientRequests.WithLabelValues(http.MethodGet, code)); got < n {
			t.Errorf("code %s: got %v, want at least %v", code, got, n)
		}
	}
	if n, err := testutil.GatherAndCount(reg, "rest_client_requests_total"); n == 0 || err != nil {
		t.Errorf("got %d series, %v", n, err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(families[0].String(), `"666"`) {
		t.Error("any status makes a series")
	}
}
