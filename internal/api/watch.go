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
	// heartbeat is the interval at which a watch without news sends a sign of life.
	heartbeat = 15 * time.Second
	// sendTimeout bounds the sending of one item.
	sendTimeout = 10 * time.Second
	// maxBehind bounds the items that a watch has not sent yet. Beyond it the watch ends, and its client lists anew.
	maxBehind = 256
)

// errBehind ends a watch whose client reads too slowly.
var errBehind = &Error{Status: http.StatusTooManyRequests, Text: "the watch was read too slowly; list anew and watch again"}

// watchOf is the subject of a watch.
type watchOf struct {
	list  view.List
	query view.Query
	// read reads a page of the list.
	read func(ctx context.Context, q view.Query) (items []view.Item, next string, err error)
}

// late is how much older than a sent item a later stored item may be. An item has the time at which it happened, and the streams of
// a list are read concurrently.
var late = map[view.List]time.Duration{view.Deliveries: 5 * time.Second, view.Events: 5 * time.Second, view.Webhooks: 2 * time.Minute}

// watch answers with server-sent events (the section of that name in the HTML standard). Each new item of a list is an event "item"
// with its time as the ID. An event "error" is sent if the watch ends early. A client that returns with the last ID receives the
// items since then, and so does a client that names a time by since. With the last ID some items may be sent twice.
func (h *Handler) watch(w http.ResponseWriter, r *http.Request, u *User, of watchOf) error {
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		at, err := time.Parse(time.RFC3339Nano, last)
		if err != nil {
			return invalid("Last-Event-ID is not the ID of an item of this list")
		}
		of.query.Since = kept(at.Add(-late[of.list]))
	}
	ctx, cancel := context.WithCancel(r.Context())
	news := &news{items: make(chan view.Item, maxBehind), begun: make(chan struct{}), done: make(chan error, 1)}
	var running sync.WaitGroup
	running.Go(func() { news.done <- h.service.follow(ctx, u, namespaceOf(r), of.list, news.handler(of.query)) })
	defer running.Wait()
	defer cancel()
	if err := news.begin(ctx, h.stopping); err != nil {
		return err
	}
	h.metrics.watches.Inc()
	defer h.metrics.watches.Dec()
	missed, sent, err := h.catchUp(ctx, u, of)
	if err != nil {
		return err
	}
	defer sent()
	return h.stream(ctx, w, missed, news, sent)
}

// stream sends the missed items and then the new ones. Once it has begun, it reports an error as an event.
func (h *Handler) stream(ctx context.Context, w http.ResponseWriter, missed *missed, news *news, sent func()) error {
	s, err := newStream(w)
	if err != nil {
		return err
	}
	failure := h.pass(ctx, s, missed, news, sent)
	if failure != nil && !errors.Is(failure, errGone) {
		_ = s.fail(failure) // a write error means that the client has disconnected
	}
	return nil
}

// news are the new items of a watch, and the reason for its end.
type news struct {
	items chan view.Item
	begun chan struct{}
	done  chan error
	// since is the time from which they are complete.
	since time.Time
}

// handler returns a handler that keeps selected items for a stream, and never waits for the stream.
func (n *news) handler(q view.Query) func(any) error {
	return func(item any) error {
		if e, is := item.(view.Event); is {
			item = shortened(e)
		}
		switch i := item.(type) {
		case view.Begun:
			close(n.begun)
		case view.Item:
			if !i.SelectedBy(&q) {
				return nil
			}
			select {
			case n.items <- i:
			default:
				return errBehind
			}
		}
		return nil
	}
}

// begin waits until all items stored from then on are among the news. It returns the refusal if the user may not follow them.
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

// pass sends the missed items, and then new ones until the watch ends. It returns nil after watchTime, and the reason for any other
// end. It calls sent after the missed items.
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
	// errGone ends a watch whose client has disconnected.
	errGone = errors.New("the client has gone")
)

// missed are the items before the start of a watch, oldest first, in the form in which they are sent.
type missed struct {
	events [][]byte
	// seen has a hash of each event, so that an item that is also among the news is sent once.
	seen map[uint64]struct{}
	seed maphash.Seed
}

func (m *missed) add(event []byte) {
	m.events = append(m.events, event)
	m.seen[maphash.Bytes(m.seed, event)] = struct{}{}
}

// has reports whether an event is one of them, once for each.
func (m *missed) has(event []byte) bool {
	key := maphash.Bytes(m.seed, event)
	_, is := m.seen[key]
	delete(m.seen, key)
	return is
}

// catchUp returns the items since the time in the query. More than a page of them is an error. The caller calls sent once they are sent.
func (h *Handler) catchUp(ctx context.Context, u *User, of watchOf) (m *missed, sent func(), err error) {
	m = &missed{seen: map[uint64]struct{}{}, seed: maphash.MakeSeed()}
	if of.query.Since.IsZero() {
		return m, func() {}, nil
	}
	q := of.query
	q.Limit = view.MaxLimit
	items, next, err := of.read(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	if next != "" {
		return nil, nil, errGap
	}
	sent, err = h.service.Answer(ctx, u, func() (size int, err error) {
		for _, item := range slices.Backward(items) {
			event, err := eventOf(item)
			if err != nil {
				return 0, err
			}
			m.add(event)
			size += len(event)
		}
		return size, nil
	})
	return m, sent, err
}

// stream is an answer of server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// newStream begins the answer. Each event has its own write deadline.
func newStream(w http.ResponseWriter) (*stream, error) {
	s := &stream{w, http.NewResponseController(w)}
	if err := s.control.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return nil, err
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // proxies that know it forward each event at once
	w.WriteHeader(http.StatusOK)
	return s, s.control.Flush()
}

// item sends an item, unless it was among the missed ones.
func (s *stream) item(item view.Item, missed *missed) error {
	event, err := eventOf(item)
	if err != nil || missed.has(event) {
		return err
	}
	return s.write(event)
}

// eventOf returns an item as an event, with its time as the ID.
func eventOf(item view.Item) ([]byte, error) {
	data, err := encoded(item)
	if err != nil {
		return nil, err
	}
	return eventText("item", idOfTime(item.At()), data), nil
}

// place reports that nothing is new until at, so that a client that returns continues from there. Browsers remember the ID of an
// event without data and pass the event to no listener.
func (s *stream) place(at time.Time) error {
	return s.write([]byte("id: " + idOfTime(at) + "\n\n"))
}

func idOfTime(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// fail sends the reason for the end of the stream.
func (s *stream) fail(why error) error {
	data, err := json.Marshal(struct {
		Error string `json:"error"`
	}{AsError(why).Text})
	if err != nil {
		return err
	}
	return s.write(eventText("error", "", data))
}

// eventText returns one event. The data is JSON, which has no line breaks.
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
