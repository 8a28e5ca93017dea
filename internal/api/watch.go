package api

import (
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
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
	// maxStill bounds the time in which it is unknown whether there is news. Beyond it the watch ends, so that its reader does not take the
	// silence for none.
	maxStill = time.Minute
)

// errBehind ends a watch whose client reads too slowly.
var errBehind = &Error{Status: http.StatusTooManyRequests, Text: "the watch was read too slowly; list anew and watch again"}

// watch is a list that a client follows.
type watch struct {
	list  view.List
	query view.Query
	// read reads a page of the list.
	read func(ctx context.Context, q view.Query) (items []view.Item, next string, err error)

	// news are the new items, which are complete from since on, once begun is closed. done has the reason for their end.
	news  chan view.Item
	begun chan struct{}
	done  chan error
	since time.Time
	// reached is the time until which they have come, as far as that is known.
	reached atomic.Pointer[time.Time]
	// missed are the items before them, oldest first, in the form in which they are sent. seen has a hash of each, so that an item that is
	// also among the news is sent once.
	missed [][]byte
	seen   map[uint64]struct{}
	seed   maphash.Seed
}

// late is how much older than a sent item a later stored item may be. An item has the time at which it happened, and the streams of
// a list are read concurrently.
var late = map[view.List]time.Duration{view.Deliveries: 5 * time.Second, view.Events: 5 * time.Second, view.Webhooks: 2 * time.Minute}

// watch answers with server-sent events (the section of that name in the HTML standard). Each new item of a list is an event "item"
// with its time as the ID. An event "error" is sent if the watch ends early. A client that returns with the last ID receives the
// items since then, and so does a client that names a time by since. With the last ID some items may be sent twice.
func (h *Handler) watch(w http.ResponseWriter, r *http.Request, u *User, of *watch) error {
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		at, err := time.Parse(time.RFC3339Nano, last)
		if err != nil {
			return invalid("Last-Event-ID is not the ID of an item of this list")
		}
		of.query.Since = kept(at.Add(-late[of.list]))
	}
	ctx, cancel := context.WithCancel(r.Context())
	of.news, of.begun, of.done = make(chan view.Item, maxBehind), make(chan struct{}), make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { of.done <- h.service.follow(ctx, u, namespaceOf(r), of.list, of.keep) })
	defer running.Wait()
	defer cancel()
	if err := of.begin(ctx, h.stopping); err != nil {
		return err
	}
	h.metrics.watches.Inc()
	defer h.metrics.watches.Dec()
	sent, err := h.catchUp(ctx, u, of)
	if err != nil {
		return err
	}
	defer sent()
	s, err := newStream(w)
	if err != nil {
		return err
	}
	if err := h.pass(ctx, s, of, sent); err != nil && !errors.Is(err, errGone) {
		_ = s.fail(err) // the answer has begun; a write error means that the client has disconnected
	}
	return nil
}

// keep keeps a selected item for the stream, and never waits for the stream.
func (of *watch) keep(item any) error {
	if e, is := item.(view.Event); is {
		item = shortened(e)
	}
	switch i := item.(type) {
	case view.Begun:
		close(of.begun)
	case view.Reached:
		of.reached.Store(&i.At)
	case view.Item:
		if !i.SelectedBy(&of.query) {
			return nil
		}
		select {
		case of.news <- i:
		default:
			return errBehind
		}
	}
	return nil
}

// place returns the time until which all items are sent or among the news.
func (of *watch) place() time.Time {
	if at := of.reached.Load(); at != nil {
		return later(of.since, *at)
	}
	return of.since
}

// begin waits until all items stored from then on are among the news. It returns the refusal if the user may not follow them.
func (of *watch) begin(ctx context.Context, stopping <-chan struct{}) error {
	timer := time.NewTimer(readTimeout)
	defer timer.Stop()
	select {
	case <-of.begun:
		of.since = time.Now()
		return nil
	case err := <-of.done:
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
func (h *Handler) pass(ctx context.Context, s *stream, of *watch, sent func()) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for _, event := range of.missed {
		select {
		case <-h.stopping:
			return errStopping
		case err := <-of.done:
			return err
		default:
		}
		if err := s.write(event); err != nil {
			return err
		}
	}
	of.missed = nil
	sent()
	if err := s.place(of.since); err != nil {
		return err
	}
	for {
		var err error
		select {
		case item := <-of.news:
			err = s.item(item, of)
		case now := <-beat.C:
			at := of.place() // before it is known that there is no news until then
			if now.Sub(at) > maxStill {
				return errStore
			}
			if len(of.news) == 0 {
				err = s.place(at)
			}
		case <-h.stopping:
			return errStopping
		case <-ctx.Done():
			return errGone
		case err := <-of.done:
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

// wasMissed reports whether an event is one of the missed ones, once for each.
func (of *watch) wasMissed(event []byte) bool {
	if len(of.seen) == 0 {
		return false // and there may be no seed
	}
	key := maphash.Bytes(of.seed, event)
	_, is := of.seen[key]
	delete(of.seen, key)
	return is
}

// catchUp reads the items since the time in the query. More than a page of them is an error. The caller calls sent once they are sent.
func (h *Handler) catchUp(ctx context.Context, u *User, of *watch) (sent func(), err error) {
	if of.query.Since.IsZero() {
		return func() {}, nil
	}
	q := of.query
	q.Limit = view.MaxLimit
	items, next, err := of.read(ctx, q)
	if err != nil {
		return nil, err
	}
	if next != "" {
		return nil, errGap
	}
	of.seen, of.seed = map[uint64]struct{}{}, maphash.MakeSeed()
	return h.service.Answer(ctx, u, func() (size int, err error) {
		for _, item := range slices.Backward(items) {
			event, err := eventOf(item, item.At())
			if err != nil {
				return 0, err
			}
			of.missed = append(of.missed, event)
			of.seen[maphash.Bytes(of.seed, event)] = struct{}{}
			size += len(event)
		}
		return size, nil
	})
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

// item sends an item, unless it was among the missed ones. Where one of the list's streams is behind, its ID is the place of the watch.
func (s *stream) item(item view.Item, of *watch) error {
	event, err := eventOf(item, item.At())
	if err != nil || of.wasMissed(event) {
		return err
	}
	if at := of.place(); at.Before(item.At().Add(-late[of.list])) {
		if event, err = eventOf(item, at); err != nil {
			return err
		}
	}
	return s.write(event)
}

// eventOf returns an item as an event, with a time as the ID.
func eventOf(item view.Item, at time.Time) ([]byte, error) {
	data, err := encoded(item)
	if err != nil {
		return nil, err
	}
	return eventText("item", idOfTime(at), data), nil
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
	if _, err := s.w.Write(text); err != nil {
		return errGone
	}
	if err := s.control.Flush(); err != nil {
		return errGone
	}
	return nil
}
