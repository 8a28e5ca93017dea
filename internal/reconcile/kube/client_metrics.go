package kube

import (
	"context"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

// clientRequests counts the requests of client-go, under the name that Kubernetes' own programs and Flux's controllers use. There is one
// for the process, like client-go's hook.
var clientRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "rest_client_requests_total", Help: "Requests to the Kubernetes API, by method and status code.",
}, []string{"method", "code"})

// CountClientRequests counts the process's requests to the API server in r. client-go uses the first registration and ignores later ones.
func CountClientRequests(r prometheus.Registerer) {
	r.MustRegister(clientRequests)
	clientmetrics.Register(clientmetrics.RegisterOpts{RequestResult: requestCounter{}})
}

// requestCounter is the hook that client-go calls for each answer.
type requestCounter struct{}

// Increment counts one answer. It drops the host, since there is only one.
func (requestCounter) Increment(_ context.Context, code, method, _ string) {
	clientRequests.WithLabelValues(method, knownCode(code)).Inc()
}

// knownCode bounds the label's values to known status codes and "<error>", client-go's word for no answer. The other side chooses the
// status, which is unbounded.
func knownCode(code string) string {
	if n, err := strconv.Atoi(code); err == nil && http.StatusText(n) != "" {
		return code
	}
	return "<error>"
}
