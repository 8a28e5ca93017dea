package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"notifier/internal/event/view"
)

const (
	// heartbeat is how often a watch without news says that it is there.
	heartbeat = 15 * time.Second
	// sendTimeout bounds the sending of one item.
	sendTimeout = 10 * time.Second
	// maxBehind is how many items a watch may be behind. One that is more ends, and its client lists anew.
	maxBehind = 256
)

// errBehind ends a watch whose client reads too slowly.
var errBehind = &Error{Status: http.StatusTooManyRequests, Text: "the watch was read too slowly; list anew and watch again"}

// watchOf is what a watch is of.
type watchOf struct {
	namespace string
	list      view.List
	query     view.Query
}

// watch answers with server-sent events (the section of that name in the HTML standard): an event "item" for each new item of a list, with
// its time as the ID, and one "error" where the watch ends before its time. A client that comes back with the last ID is sent what came
// since, and so is one that asks for a time by since. Both may be sent an item twice.
func (h *Handler) watch(w http.ResponseWriter, r *http.Request, u *User, of watchOf) error {
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		at, err := time.Parse(time.RFC3339Nano, last)
		if err != nil {
			return invalid("Last-Event-ID is not the ID of an item of this list")
		}
		of.query.Since = at
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	f, err := h.service.follow(ctx, u, of.namespace, of.list)
	if err != nil {
		return err
	}
	defer f.release()
	h.metrics.watches.Inc()
	defer h.metrics.watches.Dec()
	s, err := newStream(w)
	if err != nil {
		return err
	}
	items, done := make(chan any, maxBehind), make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { done <- f.run(ctx, into(items, of.query)) })
	failure := h.catchUp(ctx, s, u, of)
	if failure == nil {
		failure = h.pass(ctx, s, items, done)
	}
	cancel()
	running.Wait()
	if failure != nil && !errors.Is(failure, errGone) {
		_ = s.fail(failure) // the client is told, or it has gone
	}
	return nil
}

// into is a handler of items that keeps them for a stream, and never waits for it.
func into(items chan<- any, q view.Query) func(any) error {
	return func(item any) error {
		if !selects(q, item) {
			return nil
		}
		select {
		case items <- item:
			return nil
		default:
			return errBehind
		}
	}
}

// pass sends items until the watch ends, and returns why: nil when its time is over.
func (h *Handler) pass(ctx context.Context, s *stream, items <-chan any, done <-chan error) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case item := <-items:
			err = s.item(item)
		case <-beat.C:
			err = s.comment()
		case <-h.stopping:
			return errStopping
		case <-ctx.Done():
			return errGone
		case err := <-done:
			return err
		}
		if err != nil {
			return err
		}
	}
}

var (
	errStopping = &Error{Status: http.StatusServiceUnavailable, Text: "this replica stops; watch again", RetryAfter: time.Second}
	errGap      = &Error{Status: http.StatusGone, Text: "more came since then than a watch sends; list anew and watch from now on"}
	// errGone ends a watch whose client has gone.
	errGone = errors.New("the client has gone")
)

// catchUp sends the items since the time that the query names, oldest first. More than a page of them ends the watch.
func (h *Handler) catchUp(ctx context.Context, s *stream, u *User, of watchOf) error {
	if of.query.Since.IsZero() {
		return s.comment()
	}
	q := of.query
	q.Limit = view.MaxLimit
	var items []any
	var next string
	var err error
	switch of.list {
	case view.Deliveries:
		items, next, err = pageOf(h.service.Deliveries(ctx, u, of.namespace, q))
	case view.Events:
		items, next, err = pageOf(h.service.Events(ctx, u, of.namespace, q))
	default:
		items, next, err = pageOf(h.service.Webhooks(ctx, u, of.namespace, q))
	}
	if err != nil {
		return err
	}
	if next != "" {
		return errGap
	}
	for _, item := range slices.Backward(items) {
		if err := s.item(item); err != nil {
			return err
		}
	}
	return nil
}

func pageOf[T any](p view.Page[T], err error) (items []any, next string, _ error) {
	for _, item := range p.Items {
		items = append(items, item)
	}
	return items, p.Next, err
}

// stream is an answer of server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// newStream begins the answer. Each event has a time-out of its own.
func newStream(w http.ResponseWriter) (*stream, error) {
	s := &stream{w, http.NewResponseController(w)}
	if err := s.control.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return nil, err
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // proxies that know it pass each event on at once
	w.WriteHeader(http.StatusOK)
	return s, s.control.Flush()
}

// item sends an item with its time as the ID.
func (s *stream) item(item any) error {
	var at time.Time
	switch i := item.(type) {
	case view.Delivery:
		at = i.Time
	case view.Event:
		at = i.Accepted
		item = shortened(i)
	case view.Webhook:
		at = i.Time
	}
	data, err := json.Marshal(item)
	if err != nil {
		return err
	}
	return s.event("item", at.UTC().Format(time.RFC3339Nano), data)
}

// comment sends what clients ignore.
func (s *stream) comment() error { return s.write([]byte(":\n\n")) }

// fail says why the stream ends.
func (s *stream) fail(why error) error {
	data, err := json.Marshal(struct {
		Error string `json:"error"`
	}{AsError(why).Text})
	if err != nil {
		return err
	}
	return s.event("error", "", data)
}

// event sends one. Data is JSON, which has no line breaks.
func (s *stream) event(name, id string, data []byte) error {
	text := "event: " + name + "\n"
	if id != "" {
		text += "id: " + id + "\n"
	}
	return s.write(append(append([]byte(text+"data: "), data...), "\n\n"...))
}

func (s *stream) write(text []byte) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	if _, err := s.w.Write(text); err != nil {
		return errGone
	}
	if err := s.control.Flush(); err != nil {
		return errGone
	}
	return nil
}
