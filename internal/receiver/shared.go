package receiver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"

	"notifier/internal/receiver/answer"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/oidc"
	"notifier/internal/receiver/verify"
)

// undecided reports whether the Receiver could not check if the request is authentic.
func (one *webhook) undecided() bool {
	if one.refusal != nil {
		return errors.Is(one.refusal, oidc.ErrIssuerUnavailable) || errors.Is(one.refusal, limit.ErrNoTurn)
	}
	return !one.authentic
}

// processAll serves a request on a path that several Receivers have. They verify it at the same time, each for itself, and those that find
// it authentic are served. Receivers that take the path for proof are tried last, if the request cannot have been for another.
func (w *Webhooks) processAll(r *http.Request, s *pathRoutes) []webhook {
	body := &sharedBody{request: r, held: w.table.body(s.bodies)}
	defer body.held.Use.Release()
	all := w.try(r.Context(), body, s.routes, false)
	if !slices.ContainsFunc(all, func(one webhook) bool { return one.authentic || one.undecided() }) {
		all = append(all, w.try(r.Context(), body, s.routes, true)...)
	}
	return all
}

// try lets Receivers verify a request and act on it: those that take the path for proof, or the others.
func (w *Webhooks) try(ctx context.Context, body *sharedBody, routes []*route, byPath bool) []webhook {
	routes = slices.DeleteFunc(slices.Clone(routes), func(rt *route) bool {
		return verify.ProvesByPath(rt.hook.Verifier.Type()) != byPath || !verify.TakesMethod(rt.hook.Verifier.Type(), body.request.Method)
	})
	all := make([]webhook, len(routes))
	var wg sync.WaitGroup
	for i, rt := range routes {
		wg.Go(func() { all[i] = w.process(body.forOne(ctx), rt) })
	}
	wg.Wait()
	return all
}

// conclude records the outcome of a request for the Receivers of its path, and returns its answer. If a Receiver that found it authentic
// could not store it, that is the answer. Else the answer is the best of those Receivers, since the failings of the others are their own.
// If no Receiver found it authentic, the answer is that of the first that could not decide, so that the sender tries again, or else of the
// first.
//
// The outcome of one Receiver is not shown to another. A request counts for the Receivers that find it authentic, or else for one of them.
func (w *Webhooks) conclude(r *http.Request, all []webhook) *answer.Answer {
	var best *answer.Answer
	for i := range all {
		one := &all[i]
		if !one.authentic {
			continue
		}
		w.record(r.Context(), one)
		switch {
		case best == nil, one.answer == hookUnavailable, best != hookUnavailable && best.Status >= 300 && one.answer.Status < 300:
			best = one.answer
		}
	}
	if best != nil {
		return best
	}
	one := &all[max(0, slices.IndexFunc(all, func(one webhook) bool { return one.undecided() }))]
	if one.refusal != nil {
		one.answer = w.failed(one.rt, one.refusal)
	}
	w.record(r.Context(), one)
	return one.answer
}

// sharedBody is the body of a request that several Receivers verify. It is read once, when the first of them asks for it, and kept until
// all are done.
type sharedBody struct {
	request *http.Request
	held    limit.Body
	once    sync.Once
	err     error
}

// forOne returns the request for one of the Receivers.
func (b *sharedBody) forOne(ctx context.Context) *http.Request {
	r := b.request.WithContext(ctx)
	r.Body = &sharedReader{body: b}
	return r
}

// sharedReader reads a shared body from its beginning.
type sharedReader struct {
	body *sharedBody
	at   int
}

func (s *sharedReader) all() ([]byte, error) {
	b := s.body
	b.once.Do(func() { b.err = b.held.Read(b.request) })
	return b.held.Bytes, b.err
}

func (s *sharedReader) Read(p []byte) (int, error) {
	all, err := s.all()
	if err != nil {
		return 0, err
	}
	n := copy(p, all[s.at:])
	s.at += n
	if s.at == len(all) {
		return n, io.EOF
	}
	return n, nil
}

func (*sharedReader) Close() error { return nil }

// keep reads a body into memory, within the request's own capacity or, if other Receivers read it as well, the shared one.
func keep(r *http.Request, own *limit.Body) ([]byte, error) {
	if shared, ok := r.Body.(*sharedReader); ok {
		return shared.all()
	}
	err := own.Read(r)
	return own.Bytes, err
}
