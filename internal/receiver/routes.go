package receiver

import (
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"notifier/internal/receiver/answer"
	"notifier/internal/receiver/verify"
)

// routes returns the router of the public port. The path decides before the method does, so that the answer to another method does not
// distinguish an unknown path from a known one.
func (w *Webhooks) routes() http.Handler {
	mux := chi.NewRouter()
	mux.Post(hookPrefix+"{digest}", w.post)
	mux.MethodNotAllowed(w.otherMethod)
	mux.NotFound(func(rw http.ResponseWriter, r *http.Request) { w.unknown(rw, r, nil) })
	return mux
}

// post answers a webhook. The request URI is compared whole, as Flux does: with a query string, a trailing slash, another spelling of a
// character or a host in it, it is another path.
func (w *Webhooks) post(rw http.ResponseWriter, r *http.Request) {
	s, early := w.table.lookup(r.RequestURI)
	if s == nil {
		w.unknown(rw, r, early)
		return
	}
	w.serve(rw, r, s)
}

// otherMethod answers a request of another method than POST, or of a method that the router does not know, on any path. A webhook of some
// types may have any method.
func (w *Webhooks) otherMethod(rw http.ResponseWriter, r *http.Request) {
	s, early := w.table.lookup(r.RequestURI)
	switch {
	case s == nil:
		w.unknown(rw, r, early)
	case slices.ContainsFunc(s.routes, func(rt *route) bool { return verify.TakesMethod(rt.hook.Verifier.Type(), r.Method) }):
		w.serve(rw, r, s)
	default:
		answer.Abandon(rw, r)
		w.record(r.Context(), &webhook{rt: s.routes[0], answer: hookMethod})
		rw.Header().Set("Allow", http.MethodPost)
		hookMethod.Write(rw)
	}
}

// unknown answers a path that is not served, with early unless that is nil. While Receivers are being compiled the path of a webhook may
// become known at any moment, so nothing is charged for it.
func (w *Webhooks) unknown(rw http.ResponseWriter, r *http.Request, early *answer.Answer) {
	a := hookUnknown
	switch {
	case early != nil:
		a = early
	case !w.unknownPaths.Allow(w.proxies.Client(r)):
		a = w.overUnknown
	}
	w.metrics.count(noType, a.Result)
	answer.Abandon(rw, r)
	a.Write(rw)
}

// serve answers a webhook of a known path, and records its outcome for the Receivers.
func (w *Webhooks) serve(rw http.ResponseWriter, r *http.Request, s *pathRoutes) {
	w.inFlight.Add(1)
	defer w.inFlight.Add(-1)
	var all []webhook
	if len(s.routes) > 1 {
		all = w.processAll(r, s)
	} else {
		all = []webhook{w.process(r, s.routes[0])}
	}
	a := w.conclude(r, all)
	if !slices.ContainsFunc(all, func(one webhook) bool { return one.read }) {
		answer.Abandon(rw, r)
	}
	a.Write(rw)
}
