package reconcile

import (
	"context"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

// clientRequests are the requests that client-go made, under the name that Kubernetes' own programs and Flux's controllers give them. It
// is one for the process, as client-go's hook is.
var clientRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "rest_client_requests_total", Help: "Requests to the Kubernetes API, by method and status code.",
}, []string{"method", "code"})

// CountClientRequests counts in the registry what the process asks of the API server. client-go takes the first that is called and no
// other.
func CountClientRequests(r prometheus.Registerer) {
	r.MustRegister(clientRequests)
	clientmetrics.Register(clientmetrics.RegisterOpts{RequestResult: requestCounter{}})
}

// requestCounter is what client-go calls for each answer.
type requestCounter struct{}

// Increment leaves the host out: there is one.
func (requestCounter) Increment(_ context.Context, code, method, _ string) {
	clientRequests.WithLabelValues(method, knownCode(code)).Inc()
}

// knownCode bounds the label: client-go says "<error>" where there was no answer, and a status is what the other side writes.
func knownCode(code string) string {
	if n, err := strconv.Atoi(code); err == nil && http.StatusText(n) != "" {
		return code
	}
	return "<error>"
}
