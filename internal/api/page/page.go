package page

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/time/rate"

	"notifier/internal/api"
	"notifier/internal/event/view"
)

// policy is the Content-Security-Policy of every answer: only content of this origin, and no script or style within a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// Handler serves the page. It relies on the API's handler to refuse POSTs of other sites, and for the headers of every answer.
type Handler struct {
	service *api.Service
	log     *slog.Logger
	trouble *rate.Limiter
	mux     *http.ServeMux
}

// New returns a Handler over a service.
func New(service *api.Service, log *slog.Logger) *Handler {
	h := &Handler{service: service, log: log, trouble: rate.NewLimiter(1, 10), mux: http.NewServeMux()}
	h.mux.HandleFunc("GET /static/{file}", asset)
	for pattern, show := range map[string]show{
		"GET /{$}":                                namespaces,
		"GET /ns/{ns}":                            toDeliveries,
		"GET /ns/{ns}/deliveries":                 deliveries,
		"GET /ns/{ns}/deliveries/replay":          toDeliveries,
		"POST /ns/{ns}/deliveries/replay":         replayAll,
		"GET /ns/{ns}/deliveries/{id}":            delivery,
		"GET /ns/{ns}/deliveries/{id}/replay":     toDelivery,
		"POST /ns/{ns}/deliveries/{id}/replay":    replayOne,
		"GET /ns/{ns}/events":                     events,
		"GET /ns/{ns}/events/{id}":                explain,
		"GET /ns/{ns}/webhooks":                   webhooks,
		"GET /ns/{ns}/health":                     health,
		"POST /ns/{ns}/providers/{provider}/test": test,
		"GET /ns/{ns}/providers/{provider}/test":  toHealth,
		"/":                                       func(*visit) (*screen, error) { return nil, view.ErrNotFound },
	} {
		h.mux.Handle(pattern, h.page(show))
	}
	return h
}

// ServeHTTP answers a request for the page or for one of its files.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
	h.mux.ServeHTTP(w, r)
}

// visit is a request of a user.
type visit struct {
	*api.Service
	place
	request *http.Request
	values  url.Values // of the address
	user    *api.User
}

func (v *visit) ctx() context.Context { return v.request.Context() }

// may reports whether to offer an action. The Service checks the right again when the action is requested.
func (v *visit) may(r api.Right) bool {
	allowed, err := v.May(v.ctx(), v.user, v.namespace, r)
	return err == nil && allowed
}

// show makes the screen for a visit.
type show func(*visit) (*screen, error)

// page returns the handler of one kind of page, for authenticated users.
func (h *Handler) page(show show) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{Service: h.service, place: place{namespace: r.PathValue("ns"), now: time.Now()}, request: r}
		var s *screen
		var err error
		if v.user, err = h.service.Authenticate(r.Context(), r); err == nil {
			v.values, err = api.Parameters(r)
		}
		if err == nil {
			s, err = show(v)
		}
		if err == nil && s.redirect != "" {
			http.Redirect(w, r, string(s.redirect), http.StatusSeeOther)
			return
		}
		page, sent := []byte(nil), func() {}
		if err == nil {
			sent, err = v.Answer(r.Context(), v.user, func() (size int, err error) {
				page, err = rendered(v, s)
				return len(page), err
			})
		}
		if err != nil { // the page that says so is small, and waits for nothing
			s, sent = h.problem(w, r, err, s), func() {}
			page, err = rendered(v, s)
		}
		defer sent()
		if err != nil {
			h.log.ErrorContext(r.Context(), "a page was not rendered", "page", r.Pattern, "error", err)
			http.Error(w, "the page could not be made", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(max(s.status, http.StatusOK))
		api.WriteParts(w, page)
	})
}

// rendered returns a screen as a page, whole.
func rendered(v *visit, s *screen) ([]byte, error) {
	user := ""
	if v.user != nil {
		user = v.user.Name
	}
	var page bytes.Buffer
	err := layout(s, v.namespace, user).Render(&page)
	return visible(page.Bytes()), err
}

// problem returns the screen for an error. It has the notice of the screen that cannot be shown, nil for none.
func (h *Handler) problem(w http.ResponseWriter, r *http.Request, err error, instead *screen) *screen {
	e := api.AsError(err)
	if e.Status >= http.StatusInternalServerError && r.Context().Err() == nil && h.trouble.Allow() {
		h.log.WarnContext(r.Context(), "a page was not served", "namespace", r.PathValue("ns"), "page", r.Pattern, "error", err)
	}
	e.SetHeaders(w.Header(), r)
	if e.Status == http.StatusUnauthorized {
		return &screen{title: "Sign in", status: e.Status, main: signinMain(
			r.Header.Get("Authorization") != "", h.service.TokenCommand("<service account> -n <namespace>"),
		)}
	}
	headline, known := heads[e.Status]
	if !known {
		headline = "Not available"
	}
	s := problem(e.Status, headline, e.Text)
	if instead != nil {
		s.notice = instead.notice
	}
	return s
}
