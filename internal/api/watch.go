package api

import (
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
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

// late is how much earlier than an item that was sent another one may be that is stored after it: items have the time at which they came
// about, and the streams of a list are read side by side.
var late = map[view.List]time.Duration{view.Deliveries: 5 * time.Second, view.Events: 5 * time.Second, view.Webhooks: 2 * time.Minute}

// watch answers with server-sent events (the section of that name in the HTML standard): an event "item" for each new item of a list, with
// its time as the ID, and one "error" where the watch ends before its time. A client that comes back with the last ID is sent what came
// since, and so is one that asks for a time by since. The first may be sent an item again that it has.
func (h *Handler) watch(w http.ResponseWriter, r *http.Request, u *User, of watchOf) error {
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		at, err := time.Parse(time.RFC3339Nano, last)
		if err != nil {
			return invalid("Last-Event-ID is not the ID of an item of this list")
		}
		of.query.Since = kept(at.Add(-late[of.list]))
	}
	f, err := h.service.follow(r.Context(), u, of.namespace, of.list)
	if err != nil {
		return err
	}
	defer f.release()
	h.metrics.watches.Inc()
	defer h.metrics.watches.Dec()
	ctx, cancel := context.WithCancel(r.Context())
	news := &news{items: make(chan any, maxBehind), begun: make(chan struct{}), done: make(chan error, 1)}
	var running sync.WaitGroup
	running.Go(func() { news.done <- f.run(ctx, news.handler(of.query)) })
	defer running.Wait()
	defer cancel()
	if err := news.begin(ctx, h.stopping); err != nil {
		return err
	}
	missed, err := h.catchUp(ctx, u, of)
	if err != nil {
		return err
	}
	sent, err := h.service.Sending(ctx, u, missed.size)
	if err != nil {
		return err
	}
	defer sent()
	return h.stream(ctx, w, missed, news, sent)
}

// stream sends what was missed and then what is new. Once it has begun, the client is told of an error by an event.
func (h *Handler) stream(ctx context.Context, w http.ResponseWriter, missed *missed, news *news, sent func()) error {
	s, err := newStream(w)
	if err != nil {
		return err
	}
	failure := h.pass(ctx, s, missed, news, sent)
	if failure != nil && !errors.Is(failure, errGone) {
		_ = s.fail(failure) // the client is told, or it has gone
	}
	return nil
}

// news are the new items of a watch, and why there are no more.
type news struct {
	items chan any
	begun chan struct{}
	done  chan error
	// since is when they began.
	since time.Time
}

// handler is a handler of items that keeps them for a stream, and never waits for it.
func (n *news) handler(q view.Query) func(any) error {
	return func(item any) error {
		switch i := item.(type) {
		case view.Begun:
			close(n.begun)
			return nil
		case view.Event:
			item = shortened(i)
		}
		if !selects(q, item) {
			return nil
		}
		select {
		case n.items <- item:
			return nil
		default:
			return errBehind
		}
	}
}

// begin waits until all that is stored from then on is among the news.
func (n *news) begin(ctx context.Context, stopping <-chan struct{}) error {
	timer := time.NewTimer(readTimeout)
	defer timer.Stop()
	select {
	case <-n.begun:
		n.since = time.Now()
		return nil
	case err := <-n.done:
		return err
	case <-timer.C:
		return errStore
	case <-stopping:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pass sends what was missed, and items until the watch ends, and returns why: nil when its time is over. It calls sent after the first.
func (h *Handler) pass(ctx context.Context, s *stream, missed *missed, news *news, sent func()) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for _, event := range missed.events {
		select {
		case <-h.stopping:
			return errStopping
		case err := <-news.done:
			return err
		default:
		}
		if err := s.write(event); err != nil {
			return err
		}
	}
	missed.events = nil
	sent()
	if err := s.place(news.since); err != nil {
		return err
	}
	for {
		var err error
		select {
		case item := <-news.items:
			err = s.item(item, missed)
		case now := <-beat.C:
			if len(news.items) == 0 {
				err = s.place(now)
			}
		case <-h.stopping:
			return errStopping
		case <-ctx.Done():
			return errGone
		case err := <-news.done:
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

// missed is what came before a watch began, oldest first, as it is sent.
type missed struct {
	events [][]byte
	// size is that of all together, in bytes.
	size int
	// seen has a hash of each: what is among the news as well is sent once.
	seen map[uint64]struct{}
	seed maphash.Seed
}

func (m *missed) add(event []byte) {
	m.events = append(m.events, event)
	m.size += len(event)
	m.seen[maphash.Bytes(m.seed, event)] = struct{}{}
}

// has reports whether an event is one of them, once for each.
func (m *missed) has(event []byte) bool {
	key := maphash.Bytes(m.seed, event)
	_, is := m.seen[key]
	delete(m.seen, key)
	return is
}

// catchUp finds the items since the time that the query names. More than a page of them is an error.
func (h *Handler) catchUp(ctx context.Context, u *User, of watchOf) (*missed, error) {
	m := &missed{seen: map[uint64]struct{}{}, seed: maphash.MakeSeed()}
	if of.query.Since.IsZero() {
		return m, nil
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
		return nil, err
	}
	if next != "" {
		return nil, errGap
	}
	for _, item := range slices.Backward(items) {
		event, err := eventOf(item)
		if err != nil {
			return nil, err
		}
		m.add(event)
	}
	return m, nil
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

// item sends an item, unless it was among what was missed.
func (s *stream) item(item any, missed *missed) error {
	event, err := eventOf(item)
	if err != nil || missed.has(event) {
		return err
	}
	return s.write(event)
}

// eventOf is an item as it is sent, with its time as the ID.
func eventOf(item any) ([]byte, error) {
	var at time.Time
	switch i := item.(type) {
	case view.Delivery:
		at = i.Time
	case view.Event:
		at = i.Accepted
	case view.Webhook:
		at = i.Time
	}
	data, err := json.Marshal(item)
	if err != nil {
		return nil, err
	}
	return eventText("item", idOfTime(at), data), nil
}

// place says that there is nothing new until then: a client that comes back goes on from there. An event without data has its ID remembered,
// and is told to nobody.
func (s *stream) place(at time.Time) error {
	return s.write([]byte("id: " + idOfTime(at) + "\n\n"))
}

func idOfTime(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// fail says why the stream ends.
func (s *stream) fail(why error) error {
	data, err := json.Marshal(struct {
		Error string `json:"error"`
	}{AsError(why).Text})
	if err != nil {
		return err
	}
	return s.write(eventText("error", "", data))
}

// eventText is one event. Data is JSON, which has no line breaks.
func eventText(name, id string, data []byte) []byte {
	text := "event: " + name + "\n"
	if id != "" {
		text += "id: " + id + "\n"
	}
	return append(append([]byte(text+"data: "), data...), "\n\n"...)
}

func (s *stream) write(text []byte) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	if _, err := s.w.Write(text); err != nil { //nolint:gosec // it is no HTML: text/event-stream, which nosniff has browsers believe
		return errGone
	}
	if err := s.control.Flush(); err != nil {
		return errGone
	}
	return nil
}
