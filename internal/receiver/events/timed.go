package events

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// postCodes are the statuses of the events endpoint. Any other is counted as 500.
var postCodes = []int{
	http.StatusAccepted, http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestTimeout,
	http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests, http.StatusInternalServerError,
	http.StatusServiceUnavailable, http.StatusLoopDetected,
}

// postTimes observes the durations of requests to the events endpoint, by status, under the name in dashboards and alerts for Flux's
// notification-controller. The sender chooses the method, so only POST is a label.
type postTimes map[string]map[int]prometheus.Observer // method → status

// otherMethod is the label of all methods but POST.
const otherMethod = "other"

func newPostTimes(reg prometheus.Registerer) postTimes {
	vec := promauto.With(reg).NewHistogramVec(prometheus.HistogramOpts{
		Name: "gotk_event_http_request_duration_seconds",
		Help: "Time that a request to the events endpoint took, by status code.", Buckets: prometheus.DefBuckets,
		ConstLabels: prometheus.Labels{"handler": "/"},
	}, []string{"method", "code"})
	times := postTimes{}
	for _, method := range []string{http.MethodPost, otherMethod} {
		times[method] = map[int]prometheus.Observer{}
		for _, code := range postCodes {
			times[method][code] = vec.WithLabelValues(method, strconv.Itoa(code))
		}
	}
	return times
}

// timed observes the requests that next answers.
func (t postTimes) timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, written := time.Now(), middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			method := otherMethod
			if r.Method == http.MethodPost {
				method = http.MethodPost
			}
			observer, ok := t[method][written.Status()]
			if !ok {
				observer = t[method][http.StatusInternalServerError]
			}
			observer.Observe(time.Since(began).Seconds())
		}()
		next.ServeHTTP(written, r)
	})
}
