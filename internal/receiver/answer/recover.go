package answer

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// Recovered returns a handler that recovers a panic of next and answers 500. The panic's value is not logged: it may quote the request.
// Handlers write their answer last, so a panic never follows a 2xx.
func Recovered(next http.Handler, log *slog.Logger, panics prometheus.Counter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			Panicked(p, log, panics)
			w.WriteHeader(http.StatusInternalServerError)
		}()
		next.ServeHTTP(w, r)
	})
}

// Panicked counts and logs a panic by its type and stack, without its value.
func Panicked(p any, log *slog.Logger, panics prometheus.Counter) {
	panics.Inc()
	log.Error("request handler panicked", "type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
}
