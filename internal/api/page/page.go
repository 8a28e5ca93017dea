package page

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"notifier/internal/event/view"
)

// policy is the Content-Security-Policy of every answer: nothing but what this origin serves, and no script or style within a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// maxForm bounds the body of a POST in bytes.
const maxForm = 16 << 10

// Handler serves the page.
type Handler struct {
	service Service
	log     *slog.Logger
	mux     http.Handler
}

// New makes a Handler over a service.
func New(service Service, log *slog.Logger) *Handler {
	h := &Handler{service: service, log: log}
	mux := http.NewServeMux()
	mux.Handle("GET /static/{file}", http.HandlerFunc(asset))
	for pattern, show := range map[string]show{
		"GET /{$}":                                namespaces,
		"GET /ns/{ns}":                            toDeliveries,
		"GET /ns/{ns}/deliveries":                 deliveries,
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
		mux.Handle(pattern, h.page(show))
	}
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(h.crossOrigin))
	h.mux = guard.Handler(mux)
	return h
}

// ServeHTTP answers a request for the page or for what it consists of.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	h.mux.ServeHTTP(w, r)
}

// visit is a request of a user.
type visit struct {
	*http.Request
	user      User
	namespace string
	now       time.Time
}

func (v *visit) ctx() context.Context { return v.Context() }

// show makes the screen that a visit gets.
type show func(*visit) (*screen, error)

// page is the handler of one kind of page, for users who are signed in.
func (h *Handler) page(show show) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		}
		v := &visit{Request: r, namespace: r.PathValue("ns"), now: time.Now()}
		var s *screen
		var err error
		if v.user, err = h.service.SignIn(r); err == nil {
			s, err = show(v)
		}
		if err != nil {
			s = h.problem(v, err)
		}
		h.render(w, v, s)
	})
}

func (h *Handler) crossOrigin(w http.ResponseWriter, r *http.Request) {
	h.render(w, &visit{Request: r, now: time.Now()}, &screen{
		template: "problem", Title: "Refused", status: http.StatusForbidden,
		Body: problem{Head: "Refused", Text: "This request was made by another site. Nothing was changed.", Link: "/", Label: "Namespaces"},
	})
}

// render writes a screen, whole or not at all.
func (h *Handler) render(w http.ResponseWriter, v *visit, s *screen) {
	if s.redirect != "" {
		http.Redirect(w, v.Request, s.redirect, http.StatusSeeOther)
		return
	}
	s.Now, s.Namespace, s.Assets = v.now, v.namespace, assetURLs
	if v.user != nil {
		s.User = v.user.Name()
	}
	var out bytes.Buffer
	if err := templates[s.template].Execute(&out, s); err != nil {
		h.log.Error("page was not rendered", "page", s.template, "error", err)
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if s.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if s.status != 0 {
		w.WriteHeader(s.status)
	}
	_, _ = w.Write(visible(out.Bytes()))
}

// problem is the screen for an error.
func (h *Handler) problem(v *visit, err error) *screen {
	s := &screen{template: "problem", Title: "Problem"}
	p := problem{Link: "/", Label: "Namespaces"}
	switch {
	case errors.Is(err, ErrSignIn):
		return &screen{template: "signin", Title: "Sign in", status: http.StatusUnauthorized, Body: v.Header.Get("Authorization") != ""}
	case errors.Is(err, ErrForbidden):
		s.status, p.Head = http.StatusForbidden, "No access"
		p.Text = "You may not see this, or there is no such namespace. Ask an administrator for a RoleBinding to the role view in the namespace."
	case errors.Is(err, view.ErrNotFound):
		s.status, p.Head = http.StatusNotFound, "Not found"
		p.Text = "There is nothing at this address, or nothing any more: deliveries, events and webhooks are kept for a limited time."
	case errors.Is(err, view.ErrBadCursor), errors.Is(err, errFilter):
		s.status, p.Head, p.Text = http.StatusBadRequest, "Not a valid address", err.Error()+"."
	case errors.Is(err, ErrBusy):
		s.status, p.Head, p.Text = http.StatusTooManyRequests, "Too many requests", "Wait a moment, then load the page again."
	case errors.Is(err, view.ErrNoWorker):
		s.status, p.Head = http.StatusServiceUnavailable, "No replica at work"
		p.Text = "No replica is at work at the moment. One takes over within seconds: try again."
	default:
		h.log.Error("page was not served", "path", v.Pattern, "error", err)
		s.status, p.Head = http.StatusServiceUnavailable, "Not available"
		p.Text = "What is needed for this page did not answer. Try again in a moment."
	}
	s.Title, s.Body = p.Head, p
	return s
}
