package api

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"notifier/internal/receiver/answer"
)

// Handler answers the API over HTTP.
type Handler struct {
	service  *Service
	log      *slog.Logger
	metrics  *metrics
	trouble  *rate.Limiter
	document []byte
	routes   chi.Router
	http     http.Handler
	// stopping is closed to end the watches.
	stopping chan struct{}
}

// NewHandler returns a Handler over a service. Its watches last until Run ends. page answers requests outside the API; it may be nil.
func NewHandler(service *Service, page http.Handler, registerer prometheus.Registerer) (*Handler, error) {
	document, err := openAPI()
	if err != nil {
		return nil, err
	}
	h := &Handler{
		service: service, log: service.options.Log, metrics: newMetrics(registerer), trouble: rate.NewLimiter(1, 10), document: document,
		stopping: make(chan struct{}),
	}
	h.routes = h.router(page)
	guarded := http.NewCrossOriginProtection().Handler(h.routes)
	h.http = h.observed(answer.Recovered(guarded, h.log, h.metrics.panics))
	return h, nil
}

// Run ends the watches when ctx ends, so that they do not delay the end of the process.
func (h *Handler) Run(ctx context.Context) error {
	<-ctx.Done()
	close(h.stopping)
	return nil
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	maps.Copy(w.Header(), headers)
	h.http.ServeHTTP(w, r)
}

// headers are in every answer. The page has a policy of its own.
var headers = http.Header{
	"Cache-Control":                {"no-store"},
	"X-Content-Type-Options":       {"nosniff"},
	"Content-Security-Policy":      {"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"},
	"Referrer-Policy":              {"no-referrer"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
}

// observed counts answers by route and status.
func (h *Handler) observed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		route := chi.NewRouteContext()
		begin := time.Now()
		next.ServeHTTP(told, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, route)))
		h.metrics.count(route.RoutePattern(), told.Status(), time.Since(begin))
	})
}

// user answers a request of a user. It calls serve, and answers with the error that serve returns.
func (h *Handler) user(serve func(w http.ResponseWriter, r *http.Request, u *User) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		u, err := h.service.Authenticate(r.Context(), r)
		if err == nil {
			err = serve(w, r, u)
		}
		if err != nil {
			h.fail(w, r, err)
		}
	}
}

// fail answers with an error. An unknown error is logged and not shown.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := AsError(err)
	if e == errStore && r.Context().Err() == nil && h.trouble.Allow() {
		h.log.WarnContext(r.Context(), "a request of the API failed", "namespace", namespaceOf(r),
			"route", chi.RouteContext(r.Context()).RoutePattern(), "error", err)
	}
	e.SetHeaders(w.Header(), r)
	answer.Abandon(w, r)
	writeJSON(w, e.Status, struct {
		Error string `json:"error"`
	}{e.Text})
}
