package api

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"notifier/internal/event/view"
)

// router returns every route of the API. page answers the other paths.
func (h *Handler) router(page http.Handler) chi.Router {
	mux := chi.NewRouter()
	mux.Get("/openapi.json", func(w http.ResponseWriter, _ *http.Request) { writeBody(w, http.StatusOK, h.document) })
	mux.Get("/v1/namespaces", h.user(h.namespaces))
	mux.Route("/v1/namespaces/{namespace}", func(mux chi.Router) {
		mux.Get("/deliveries", h.user(list(h, view.Deliveries, h.service.Deliveries)))
		mux.Post("/deliveries/replay", h.user(h.replay))
		mux.Get("/deliveries/{id}", h.user(one(h, h.service.Delivery)))
		mux.Post("/deliveries/{id}/replay", h.user(h.replayOne))
		mux.Get("/events", h.user(list(h, view.Events, h.service.Events)))
		mux.Get("/events/{id}/explain", h.user(one(h, h.service.Explain)))
		mux.Get("/webhooks", h.user(list(h, view.Webhooks, h.service.Webhooks)))
		mux.Get("/health", h.user(h.health))
		mux.Post("/providers/{provider}/test", h.user(h.test))
	})
	mux.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) { h.otherMethod(w, r, mux) })
	mux.NotFound(func(w http.ResponseWriter, r *http.Request) {
		if page == nil || r.URL.Path == "/v1" || strings.HasPrefix(r.URL.Path, "/v1/") {
			h.fail(w, r, &Error{Status: http.StatusNotFound, Text: "there is nothing at this path; /openapi.json tells what there is"})
			return
		}
		page.ServeHTTP(w, r)
	})
	return mux
}

// otherMethod answers a request with a method that its path does not have.
func (h *Handler) otherMethod(w http.ResponseWriter, r *http.Request, mux chi.Router) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if mux.Match(chi.NewRouteContext(), method, cmp.Or(r.URL.RawPath, r.URL.Path)) { // as requests are routed
			allowed = append(allowed, method)
		}
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	h.fail(w, r, &Error{Status: http.StatusMethodNotAllowed, Text: "this path takes " + strings.Join(allowed, ", ")})
}

func namespaceOf(r *http.Request) string { return chi.URLParam(r, "namespace") }

func idOf(r *http.Request) string { return chi.URLParam(r, "id") }

// list returns the answer to requests for a page of a list, or for a watch of it.
func list[T view.Item](
	h *Handler, l view.List, read func(context.Context, *User, string, view.Query) (view.Page[T], error),
) func(http.ResponseWriter, *http.Request, *User) error {
	return func(w http.ResponseWriter, r *http.Request, u *User) error {
		values, err := Parameters(r)
		if err != nil {
			return err
		}
		q, err := ParseQuery(l, values)
		if err != nil {
			return err
		}
		if isWatch(values) {
			return h.watch(w, r, u, &watch{list: l, query: q, read: func(ctx context.Context, q view.Query) (items []view.Item, next string, err error) {
				page, err := read(ctx, u, namespaceOf(r), q)
				for _, item := range page.Items {
					items = append(items, item)
				}
				return items, page.Next, err
			}})
		}
		page, err := read(r.Context(), u, namespaceOf(r), q)
		if err != nil {
			return err
		}
		if page.Items == nil {
			page.Items = []T{}
		}
		return h.send(w, r, u, page)
	}
}

func (h *Handler) namespaces(w http.ResponseWriter, r *http.Request, u *User) error {
	found, err := h.service.Namespaces(r.Context(), u)
	if err != nil {
		return err
	}
	return h.send(w, r, u, found)
}

// one returns the answer to requests for the item of an ID.
func one[T any](
	h *Handler, read func(ctx context.Context, u *User, namespace, id string) (T, error),
) func(http.ResponseWriter, *http.Request, *User) error {
	return func(w http.ResponseWriter, r *http.Request, u *User) error {
		found, err := read(r.Context(), u, namespaceOf(r), idOf(r))
		if err != nil {
			return err
		}
		return h.send(w, r, u, found)
	}
}

// healthOf is the answer of the route health.
type healthOf struct {
	Items []view.Health `json:"items"`
}

func (h *Handler) health(w http.ResponseWriter, r *http.Request, u *User) error {
	found, err := h.service.Health(r.Context(), u, namespaceOf(r))
	if err != nil {
		return err
	}
	return h.send(w, r, u, healthOf{found})
}

func (h *Handler) replay(w http.ResponseWriter, r *http.Request, u *User) error {
	result, err := h.service.replay(r.Context(), u, namespaceOf(r), func() (asked view.ReplayRequest, err error) {
		err = readJSON(w, r, &asked)
		return asked, err
	})
	if err != nil {
		return err
	}
	return done(w, result)
}

// done answers a request that was served. It waits for nothing: after a refusal the client would send the request again.
func done(w http.ResponseWriter, result any) error {
	writeJSON(w, http.StatusOK, result)
	return nil
}

// replayOne replays one delivery. A refusal is an error, since a client would take any other answer for success.
func (h *Handler) replayOne(w http.ResponseWriter, r *http.Request, u *User) error {
	id := idOf(r)
	result, err := h.service.Replay(r.Context(), u, namespaceOf(r), view.ReplayRequest{IDs: []string{id}})
	if err != nil {
		return err
	}
	if why, refused := result.Refused[id]; refused && result.Replayed == 0 {
		return &Error{Status: http.StatusConflict, Text: why}
	}
	return done(w, result)
}

func (h *Handler) test(w http.ResponseWriter, r *http.Request, u *User) error {
	provider := chi.URLParam(r, "provider")
	result, err := h.service.test(r.Context(), u, namespaceOf(r), provider, func() (view.TestRequest, error) {
		asked := view.TestRequest{Provider: provider}
		if r.ContentLength == 0 {
			return asked, nil
		}
		err := readJSON(w, r, &asked)
		return asked, err
	})
	if err != nil {
		return err
	}
	return done(w, result)
}
